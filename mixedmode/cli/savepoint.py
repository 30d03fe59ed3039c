"""The commands of `mixedmode savepoint`. Only `restore` starts Spark, which has to plan the job that continues."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mixedmode.cli.messages import errors_as_messages, screen_print
from mixedmode.cli.options import Overrides

savepoints = typer.Typer(
    name="savepoint",
    help="Keep a checkpoint for good, and start a job from it. The job may be changed, rescaled, or elsewhere.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Place = Annotated[str, typer.Argument(help="The folder or URL of the savepoint.", show_default=False)]


@savepoints.command()
def create(
    job: Annotated[str, typer.Argument(help="The job file, or a job's checkpoint folder or URL.", show_default=False)],
    place: Place,
    overrides: Overrides = None,
) -> None:
    """Keep the newest checkpoint as a savepoint. The job may be running, here or elsewhere."""
    with errors_as_messages():
        from mixedmode.cli.savepoint_reports import create_report

        screen_print(create_report(job, place, overrides or ()))


@savepoints.command(name="list")
def list_savepoints(
    place: Annotated[str, typer.Argument(help="A folder or URL with savepoints in it.", show_default=False)],
) -> None:
    """List the savepoints below a folder: job, epoch, when, entries, size."""
    with errors_as_messages():
        from mixedmode.cli.savepoint_reports import list_report

        screen_print(list_report(place))


@savepoints.command()
def inspect(place: Place) -> None:
    """Show what is in a savepoint, and verify every file of it."""
    with errors_as_messages():
        from mixedmode.checkpoint.savepoint import read_savepoint, verify_savepoint
        from mixedmode.checkpoint.store import ObjectStore
        from mixedmode.cli.savepoint_reports import inspect_report

        store = ObjectStore(place)
        savepoint = read_savepoint(store)
        verify_savepoint(store, savepoint)
        screen_print(inspect_report(store, savepoint))


@savepoints.command()
def restore(
    place: Place,
    job: Annotated[Path, typer.Argument(help="The job file of the job that is to go on.", show_default=False)],
    overrides: Overrides = None,
    allow_dropped_state: Annotated[
        bool, typer.Option("--allow-dropped-state", help="Leave out the state of steps that the job does not have.")
    ] = False,
    moved: Annotated[
        list[str] | None,
        typer.Option("--moved", metavar="BEFORE=NOW", help="A folder of input files that was moved; repeatable."),
    ] = None,
) -> None:
    """Fill a job's empty checkpoint folder from a savepoint; `mixedmode run` goes on from it. Repeatable."""
    with errors_as_messages():
        from mixedmode.cli.doctor import require_environment
        from mixedmode.config import load_job

        loaded = load_job(job, overrides or ())
        require_environment([])
        from mixedmode.cli.savepoint_reports import restore_report
        from mixedmode.driver.restoring import restore_savepoint

        restored = restore_savepoint(
            place, loaded.spec, loaded.where, allow_dropped=allow_dropped_state, moved=_folders(moved or ())
        )
        screen_print(restore_report(restored, loaded.spec))


@savepoints.command()
def dispose(place: Place) -> None:
    """Delete a savepoint: the files that it names, and nothing else that may be there."""
    with errors_as_messages():
        from mixedmode.cli.savepoint_reports import dispose_report

        screen_print(dispose_report(place))


def _folders(moved: Sequence[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in moved]
    if not all(before and now for before, _, now in pairs):
        msg = "give the folder as it was and as it is: --moved /data/before=/data/now"
        raise typer.BadParameter(msg)
    return {before: now for before, _, now in pairs}
