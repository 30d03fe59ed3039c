"""The command line: a thin layer over the job API. Nothing heavy is imported before a command needs it."""

import sys


def main() -> None:
    """Entry point of `mixedmode`."""
    try:
        from mixedmode.cli.app import app
    except ImportError as error:
        # A missing package is what `doctor` is for; it needs nothing but the standard library.
        from mixedmode.cli.doctor import doctor_report

        print(f"mixedmode cannot start, because a package is missing: {error.name}", file=sys.stderr)  # noqa: T201
        raise SystemExit(doctor_report()) from error
    app()
