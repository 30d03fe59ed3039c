"""What every command does with its result and with an error."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from mixedmode.cli.display import error_console, output_console
from mixedmode.errors import MixedmodeError


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Our own errors end the command with their text and exit code; others are defects and keep their stack trace."""
    try:
        yield
    except MixedmodeError as error:
        error_console().print(f"[bold red]error[/] {type(error).__name__}", highlight=False)
        error_console().print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(error.exit_code) from error


def screen_print(renderable: object) -> None:
    """To standard output, as it is."""
    output_console().print(renderable, markup=False, highlight=False, soft_wrap=isinstance(renderable, str))
