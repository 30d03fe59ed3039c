"""Rescaling a running job: how much longer the first epoch takes after the number of subtasks has changed.

The one idea: the pause is that epoch less a usual one of the same size. In it the new subtasks fetch the state of their
key groups; nothing is restarted, so there is nothing else to wait for.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.conftest import Say
from bench.feed import Feed, LiveEpoch
from bench.folders import linked
from bench.ours import aggregate_job, output_of, run_live
from bench.report import Figure, Report
from bench.workload import PARALLELISM, Scale, write_feed
from mixedmode.job import Job
from mixedmode.sinks.table import current_table

USUAL = 5  # epochs before and after each change
CHAIN = (2 * PARALLELISM, PARALLELISM)
PAUSE_MAX_SECONDS = 5.0


def test_rescaling_while_running(
    session: SparkSession, each_key_once: Path, work: Callable[[], Path], scale: Scale, report: Report, say: Say
) -> None:
    folder = work()
    sizes = [scale.small_epoch] * (1 + USUAL + len(CHAIN) * (1 + USUAL))
    waiting = write_feed(folder / "waiting", sizes, keys=scale.live_keys)
    source = linked(list(each_key_once.iterdir()), folder / "source")
    job = aggregate_job(source, folder / "job")
    epochs = run_live(session, job, _Rescaling(waiting, source, job))
    say(f"epochs     {', '.join(f'{epoch.seconds:.2f}' for epoch in epochs)} s")
    _check_counts(source, output_of(folder / "job"))
    section = f"Rescaling while running, {scale.live_keys:,} keys of state, epochs of {scale.small_epoch:,} events"
    usual, rest = epochs[1 : 1 + USUAL], epochs[1 + USUAL :]
    before = PARALLELISM
    for now in CHAIN:
        first, after, rest = rest[0], rest[1 : 1 + USUAL], rest[1 + USUAL :]
        pauses = [first.seconds - epoch.seconds for epoch in usual]
        report.add(
            Figure.median(section, f"{before} -> {now} subtasks: pause", "s", pauses, at_most=PAUSE_MAX_SECONDS),
            Figure.median(section, f"{before} -> {now} subtasks: the first epoch after it", "s", [first.seconds]),
            Figure.median(section, f"a usual epoch with {before} subtasks", "s", _seconds(usual)),
        )
        usual, before = after, now
    report.add(Figure.median(section, f"a usual epoch with {before} subtasks again", "s", _seconds(usual)))


class _Rescaling(Feed):
    """Asks for the next parallelism before it lets the first file after each USUAL epochs in."""

    def __init__(self, waiting: Path, folder: Path, job: Job) -> None:
        super().__init__(waiting, folder)
        self._job = job
        self._files = 0

    def let_in(self) -> bool:
        changes, rest = divmod(self._files - 1 - USUAL, 1 + USUAL)
        if rest == 0 and 0 <= changes < len(CHAIN):
            self._job.rescale(CHAIN[changes])
        self._files += 1
        return super().let_in()


def _check_counts(source: Path, out: Path) -> None:
    found = current_table(str(out))
    assert found is not None, "no output was written"
    read = sum(pq.read_metadata(file).num_rows for file in source.glob("*.parquet"))
    counted = pc.sum(found.rows.column("n")).as_py()
    assert counted == read, f"every event is counted once: {counted:,} of {read:,}"


def _seconds(epochs: list[LiveEpoch]) -> list[float]:
    return [epoch.seconds for epoch in epochs]
