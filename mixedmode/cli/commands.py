"""Commands of other distributions: entry points of the group `mixedmode.commands`, each a function for typer.

The benchmark is such a command, and so are the servers for trying things out (bench/pyproject.toml). If they are not
installed, `mixedmode bench` and `mixedmode services` say how to install them.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from mixedmode.cli.messages import errors_as_messages
from mixedmode.errors import InvalidJobError

GROUP = "mixedmode.commands"
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_commands(app: typer.Typer) -> None:
    """Add every installed command, under the name of its entry point."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    for name, point in sorted(points.items()):
        _add(app, name, point)
    for name in {"bench", "services"} - points.keys():
        app.command(name, hidden=True, context_settings=_ANYTHING)(_missing(name))


def _add(app: typer.Typer, name: str, point: EntryPoint) -> None:
    try:
        app.command(name)(point.load())
    except ImportError as error:
        cause = str(error)

        def broken() -> None:
            with errors_as_messages():
                msg = (
                    "the command is installed and cannot be loaded. Install its distribution again. "
                    f"command={name}, entry_point={point.value}, cause={cause}"
                )
                raise InvalidJobError(msg)

        app.command(name, hidden=True, context_settings=_ANYTHING)(broken)


def _missing(name: str) -> Callable[[], None]:
    def missing() -> None:
        with errors_as_messages():
            msg = (
                "this command is in a distribution of its own, mixedmode-bench, and it is not installed. Install it "
                f"from the folder bench/ of mixedmode's repository: pip install ./bench. command={name}"
            )
            raise InvalidJobError(msg)

    return missing
