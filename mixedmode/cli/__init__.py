"""The command line: a thin layer over the job API.

A module with expensive imports is loaded only by commands that use it.
"""

import sys


def main() -> None:
    """Run the command line; the entry point of `mixedmode`."""
    try:
        from mixedmode.cli.app import app
    except ImportError as error:
        # `doctor` reports missing packages and needs only the standard library.
        from mixedmode.cli.doctor import doctor_report

        print(f"mixedmode cannot start, because a package is missing: {error.name}", file=sys.stderr)  # noqa: T201
        raise SystemExit(doctor_report()) from error
    app()
