"""The output of results and errors, common to all commands."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from mixedmode.cli.display import error_console, output_console
from mixedmode.errors import MixedmodeError
from mixedmode.system_errors import system_error


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """End the command with the text and exit code of a MixedmodeError, or of an error of the system.

    Other errors are defects and keep their stack trace.
    """
    _leave_out_py4j()
    try:
        yield
    except (MixedmodeError, OSError) as error:
        found = error if isinstance(error, MixedmodeError) else system_error(error)
        if found is None:
            raise
        error_console().print(f"[bold red]error[/] {type(found).__name__}", highlight=False)
        error_console().print(str(found), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(found.exit_code) from error


def _leave_out_py4j() -> None:
    """Log warnings to standard error as Python does by default, except those of py4j, which also arrive as exceptions.

    On a lost connection, py4j logs a stack trace with the root logger, and would configure that logger otherwise.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: Path(record.pathname).parent.name != "py4j")
        root.addHandler(handler)


def screen_print(renderable: object) -> None:
    """Print to standard output without markup."""
    output_console().print(renderable, markup=False, highlight=False, soft_wrap=isinstance(renderable, str))
