"""The output of results and errors, common to all commands."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import typer

from mixedmode.cli.consoles import error_console, output_console
from mixedmode.errors import MixedmodeError
from mixedmode.log import RUN, LogFormat, LogLevel, lines_on_stderr
from mixedmode.system_errors import system_error


@contextmanager
def errors_as_messages(form: LogFormat | None = None, level: LogLevel | None = None) -> Iterator[None]:
    """End the command with the text and exit code of a MixedmodeError, or of an error of the system.

    Standard output escapes what is no text, such as a name of a file that is not UTF-8, as standard error does.

    Other errors are defects and keep their stack trace. With a format or a level, the run has log lines on standard
    error, from `info` on by default. Without them, only warnings have lines, and the display shows the events of a run.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    is_logged = form is not None or level is not None
    least = level or (LogLevel.INFO if is_logged else LogLevel.WARNING)
    with lines_on_stderr(form or LogFormat.TEXT, least, leaves_out=() if is_logged else (RUN,)):
        try:
            yield
        except (MixedmodeError, OSError) as error:
            found = error if isinstance(error, MixedmodeError) else system_error(error)
            if found is None:
                raise
            error_console().print(f"[bold red]error[/] {type(found).__name__}", highlight=False)
            error_console().print(str(found), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(found.exit_code) from error
        finally:
            _drop_unread_output()


def _drop_unread_output() -> None:
    """Drop what standard output still holds if its reader has ended; Python would complain about it at the exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def screen_print(renderable: object) -> None:
    """Print to standard output without markup."""
    output_console().print(renderable, markup=False, highlight=False, soft_wrap=isinstance(renderable, str))
