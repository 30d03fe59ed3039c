"""The consoles of the command line. They are apart from the display, which needs Arrow and most of the engine."""

from rich.console import Console

_PAGE_COLUMNS = 200  # width of lines where the output is not a terminal


def output_console() -> Console:
    """Return the console of standard output."""
    console = Console()
    return console if console.is_terminal else Console(width=_PAGE_COLUMNS)


def human_bytes(count: int) -> str:
    """Return a size for a person: 9.6 KiB, 18.8 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def error_console() -> Console:
    """Return the console of standard error."""
    return Console(stderr=True)
