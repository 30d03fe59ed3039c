"""`mixedmode run JOB --from TIME --to TIME`: computes the windows of a range again, and replaces their rows."""

from collections.abc import Sequence

from mixedmode.cli.display import screen
from mixedmode.cli.doctor import require_environment
from mixedmode.cli.messages import screen_print
from mixedmode.config import LoadedJob
from mixedmode.counts import counted
from mixedmode.errors import InvalidJobError

__all__ = ["run_backfill"]


def run_backfill(loaded: LoadedJob, start: str | None, end: str | None, outputs: Sequence[str], *, alone: bool) -> None:
    """Run a backfill, and print a line for each output.  alone: the command has no options of a job that goes on.

    Raise InvalidJobError for options that do not fit, and the errors of a backfill.
    """
    if start is None or end is None or not alone:
        msg = (
            "a backfill needs both --from and --to, and ends by itself; --output is for backfills. Give both, and "
            "leave --until-idle, --drain, --serve and --traces out."
        )
        raise InvalidJobError(msg)
    require_environment([])
    from mixedmode.driver.backfill import backfill, backfill_range
    from mixedmode.driver.run import RunOptions

    windows = backfill_range(start, end)
    with screen(loaded.spec, f"backfill of {windows}") as display:
        found = backfill(loaded.spec, loaded.where, windows, RunOptions(observers=[display]), outputs)
    for one in found:
        screen_print(f"{one.place}: the windows from {one.windows} have {counted(one.rows, 'row')} now")
