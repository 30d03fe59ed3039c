"""Idle sources in a graph of steps: a step that reads another source, too, is never ahead of the steps upstream."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from mixedmode import Job, Sink, Source
from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Stream
from mixedmode.tasks.timing import Timing, timing_at
from mixedmode.testing.local_plan import local_plan

HOUR = 3_600_000_000
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))])


class Live(LocalRun):
    """Epochs of a job that runs all the time, so that idle timeouts count from the last record."""

    @override
    def _timing(self, backlog: AbstractSet[str]) -> Timing:
        plan = self._plan
        return timing_at(
            plan.strategies,
            self._latest,
            self.clock_ms,
            started_ms=0,
            partitioned=plan.partitions,
            backlog=backlog,
            fires_all=False,
        )

    def epoch(self, *, minute: int, **hours: list[float]) -> None:
        """Run a live epoch at a minute of the clock over records at these hours of event time, by source."""
        self.clock_ms = 60_000 * minute
        self.run_live({name: [records(hours.get(name, []))] for name in self._plan.sources_read})

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """Return columns of all rows of the output `joined`; times in hours."""
        tables = [table for table in self.outputs["joined"] if table.num_rows]
        return [tuple(shown(row[name]) for name in names) for table in tables for row in table.to_pylist()]


def shown(value: Any) -> Any:
    return value if isinstance(value, int | str | None) else (value.hour + value.minute / 60)


def records(hours: list[float]) -> pa.Table:
    times = pa.array([round(hour * HOUR) for hour in hours], pa.int64()).cast(SCHEMA.field("at").type)
    return pa.table([pa.array(["x"] * len(hours)), times], schema=SCHEMA)


def live(folder: Path, join: Any, *, chain: bool = False) -> Live:
    """Return a job: windows of a, joined with b. Its sources are idle after a minute. chain: windows of the windows."""
    sources = {
        name: Source.json(
            folder / name, schema="k string, at timestamp", event_time="at", out_of_orderness="0s", idle_timeout="1m"
        )
        for name in ("a", "b")
    }
    job = Job("j", sources=sources, mode="streaming", parallelism=2, checkpoint_dir=folder / "checkpoints")
    windows = job.source("a").key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    if chain:
        windows = windows.key_by("k").window(tumbling="2h").aggregate(n="sum(n)")
    made: Stream = join(windows, job.source("b"))
    complete = job.output("joined", made, Sink.parquet(folder / "out"))
    return Live(complete.spec, local_plan(complete.spec, complete.where), folder, 0)


def as_of(left: Stream, right: Stream) -> Stream:
    return left.as_of_join(right, on="k", select=["left.window_start", "left.n", "right.at AS seen"], type="left")


def interval(left: Stream, right: Stream) -> Stream:
    select = ["left.window_start", "left.n", "right.at AS seen"]
    return left.interval_join(right, on="k", within=("-100h", "100h"), select=select, event_time="time")


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("join", [as_of, interval])
def test_the_windows_of_a_source_that_becomes_idle_are_not_late_for_the_next_step(
    tmp_path: Path, join: Any, *, chain: bool
) -> None:
    run = live(tmp_path, join, chain=chain)
    run.epoch(minute=0, a=[9.5], b=[9.0])
    run.epoch(minute=10, b=[20.0])  # a is idle: the join advances to 20:00, and the window of a ends before
    run.epoch(minute=20, a=[21.5], b=[22.0])  # a is back
    run.end()
    assert run.records_late == 0
    first, second = (8, 20) if chain else (9, 21)
    assert sorted(set(run.rows("window_start", "n"))) == [(first, 1), (second, 1)]


def test_a_record_of_a_returning_source_is_late_in_the_step_that_reads_it(tmp_path: Path) -> None:
    run = live(tmp_path, as_of)
    run.epoch(minute=0, a=[9.5], b=[9.0])
    run.epoch(minute=10, b=[20.0])
    run.epoch(minute=20, a=[10.5, 21.5])
    assert run.records_late == 1, "the record at 10:30; its window would be late in the join"
    run.end()
    assert run.rows("window_start", "n", "seen") == [(9, 1, 9.0), (21, 1, 20.0)]


def test_an_idle_source_is_alone_in_a_branch_that_reaches_no_other_source(tmp_path: Path) -> None:
    sources = {
        name: Source.json(
            tmp_path / name, schema="k string, at timestamp", event_time="at", out_of_orderness="0s", idle_timeout="1m"
        )
        for name in ("a", "b")
    }
    job = Job("j", sources=sources, mode="streaming", parallelism=1, checkpoint_dir=tmp_path / "checkpoints")
    both = [job.source(name).key_by("k").window(tumbling="1h").aggregate(n="count(*)") for name in ("a", "b")]
    complete = job.output("joined", both[0], Sink.parquet(tmp_path / "a-out"))
    complete = complete.output("other", both[1], Sink.parquet(tmp_path / "b-out"))
    run = Live(complete.spec, local_plan(complete.spec, complete.where), tmp_path, 0)
    run.epoch(minute=0, a=[9.5], b=[9.0])
    run.epoch(minute=10, b=[20.0])
    assert run.rows("window_start") == []
    run.epoch(minute=20, a=[9.75, 10.0])
    assert run.rows("window_start", "n") == [(9, 2)]
    assert run.records_late == 0
