"""The clock of the machine is set while a job is live: Spark waits for a time of this clock, and the job goes on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from mixedmode.config import SourceSpec
from mixedmode.driver.events import EpochCommitted, Event, Notice
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.job import Job, Sink, Source
from mixedmode.sources.source import Admission
from tests.harness import ManualClock, manifests, output_rows
from tests.local_engine import LocalEngine, LocalInputs, World, local_session

INTERVAL_MS = 1_000
HOUR_MS = 3_600_000
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))])
ONE_ROW = pa.Table.from_pylist([{"k": "a", "at": datetime(2001, 1, 1, tzinfo=UTC)}], SCHEMA)


@dataclass
class Spark:
    """Spark's side of a live query: a query begins at once, and then waits for a time of the clock.

    After each live epoch, the clock jumps, and there is a file for the next epoch.
    """

    jumps_ms: list[int]
    clock: ManualClock = field(default_factory=ManualClock)
    stop: threading.Event = field(default_factory=threading.Event)
    notices: list[str] = field(default_factory=list)
    queries: int = 0
    next_ms: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.world = World({"0": ONE_ROW})

    def begin(self) -> None:
        self.queries, self.next_ms = self.queries + 1, 0

    def command(self) -> str:
        """Return what a look at the query finds, 100 ms after the look before."""
        self.clock.time_ms += 100
        self.looks += 1
        assert self.looks < 100, "the job waits for a time that does not come"
        if self.clock.time_ms < self.next_ms:
            return "wait"
        self.next_ms = self.clock.time_ms + INTERVAL_MS
        return "epoch"

    def observe(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices.append(event.text)
        if not isinstance(event, EpochCommitted):
            return
        self.looks = 0
        if event.epoch > len(self.jumps_ms):
            self.stop.set()
            return
        self.world.files[str(event.epoch + 1)] = ONE_ROW
        if event.epoch > 0:
            self.clock.time_ms += self.jumps_ms[event.epoch - 1]


@pytest.mark.parametrize(
    ("jumps_ms", "queries"),
    [
        ([], 1),
        ([HOUR_MS, HOUR_MS], 1),
        ([-500, -900], 1),
        ([-HOUR_MS], 2),
        ([-1_000_000_000_000], 2),
        ([-HOUR_MS, HOUR_MS, -HOUR_MS], 3),
        ([HOUR_MS, -HOUR_MS, -HOUR_MS], 3),
    ],
)
def test_a_live_job_goes_on_when_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jumps_ms: list[int], queries: int
) -> None:
    (tmp_path / "in").mkdir()
    source = Source.parquet(tmp_path / "in", schema="k string, at timestamp", event_time="at")
    job = Job("counts", sources={"t": source}, mode="mixed", parallelism=1, checkpoint_dir=tmp_path / "checkpoints")
    job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(tmp_path / "out"))
    spark, stream, epochs = Spark(jumps_ms), LocalInputs.stream, len(jumps_ms) + 2

    def begun(self: LocalInputs, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        spark.begin()
        return stream(self, admission)

    monkeypatch.setattr(LocalInputs, "stream", begun)
    session = local_session(spark.world, spark.command)
    options = RunOptions(Until.STOPPED, [spark.observe], spark.clock, spark.stop, session=session, engine=LocalEngine)
    run_job(job.spec, job.where, options)
    assert [manifest.records_in for manifest in manifests(tmp_path / "checkpoints")] == [1] * epochs
    assert [row["n"] for row in output_rows(tmp_path / "out")] == [epochs]
    assert spark.queries == 1 + queries, "one of them catches up"
    told = [text for text in spark.notices if text.startswith("the clock of this machine was set back.")]
    assert len(told) == queries - 1
