"""The consoles of the command line. They are apart from the display, which needs Arrow and most of the engine."""

import logging
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from typing_extensions import override

_logger = logging.getLogger(__name__)
_PAGE_COLUMNS = 200  # width of lines where the output is not a terminal


class TextConsole(Console):
    """A console that prints every text as it is. By default, rich replaces names of emoji, such as `:x:` in a path."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, **settings)


class RunConsole(TextConsole):
    """The console of a run, which goes on without a display if nobody reads it any more."""

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        _logger.warning(
            "the program that reads standard output has ended, so the run has no display from here on; the job goes "
            "on. To end it, press Ctrl-C or send SIGTERM"
        )


def output_console(kind: type[TextConsole] = TextConsole) -> TextConsole:
    """Return the console of standard output."""
    console = kind()
    return console if console.is_terminal else kind(width=_PAGE_COLUMNS)


def plain_table(headings: Iterable[str], *, numbers: Collection[str] = (), title: str | None = None) -> Table:
    """Return a table without lines, whose long texts are folded and not cut.  numbers: headings of columns of them."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    return table


def human_bytes(count: int) -> str:
    """Return a size for a person: 9.6 KiB, 18.8 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def utc_text(time_ms: int) -> str:
    """Return a time, in milliseconds since 1970, for a person: 2024-05-01 09:30:00 UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def error_console() -> TextConsole:
    """Return the console of standard error."""
    return TextConsole(stderr=True)
