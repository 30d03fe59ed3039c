"""The command line as a shell would call it, in this process."""

import re
from pathlib import Path

from typer.testing import CliRunner, Result

from mixedmode.cli.app import app

_TIME_WITHOUT_ZONE = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?(?!\.?\d| UTC|Z|[+-]\d\d:\d\d)")


def command(*arguments: str | Path) -> Result:
    """`mixedmode` with these arguments."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines(result: Result) -> list[str]:
    """Return the lines that a successful command has printed."""
    assert result.exit_code == 0, result.output
    return with_zones([line.rstrip() for line in result.stdout.rstrip().splitlines()])


def with_zones(shown: list[str]) -> list[str]:
    """Return the lines. Each time in them has to say its zone."""
    assert not [line for line in shown if _TIME_WITHOUT_ZONE.search(line)], shown
    return shown
