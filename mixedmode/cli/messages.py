"""What every command does with its result and with an error."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from mixedmode.cli.display import error_console, output_console
from mixedmode.errors import MixedmodeError


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Our own errors end the command with their text and exit code; others are defects and keep their stack trace."""
    _leave_out_py4j()
    try:
        yield
    except MixedmodeError as error:
        error_console().print(f"[bold red]error[/] {type(error).__name__}", highlight=False)
        error_console().print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(error.exit_code) from error


def _leave_out_py4j() -> None:
    """Log warnings to standard error as Python does by itself, but for py4j's, which come to us as exceptions too.

    On a lost connection py4j logs a stack trace with the root logger, and would set that up otherwise.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda record: Path(record.pathname).parent.name != "py4j")
        root.addHandler(handler)


def screen_print(renderable: object) -> None:
    """To standard output, as it is."""
    output_console().print(renderable, markup=False, highlight=False, soft_wrap=isinstance(renderable, str))
