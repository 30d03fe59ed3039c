"""The command line as a shell would call it, in this process."""

from pathlib import Path

from typer.testing import CliRunner, Result

from mixedmode.cli.app import app


def command(*arguments: str | Path) -> Result:
    """`mixedmode` with these arguments."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def lines(result: Result) -> list[str]:
    """Return the lines that a successful command has printed."""
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.rstrip().splitlines()]
