"""The jobs under test, as a user would write them, run in this process on the session that their peers use, too."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from bench.feed import Feed, LiveEpoch
from bench.function import OUTPUT_DDL, CountAndSum
from bench.workload import DISORDER_S, KEY, PARALLELISM, TIME, VALUE, WINDOW_S
from mixedmode.config import SourceSpec
from mixedmode.job import Job, Sink, Source
from mixedmode.runtime.events import EpochCommitted, EpochStarted, Flipped, Phase, Silent
from mixedmode.runtime.run import RunOptions, Until, run_job

LIVE_SECONDS_MAX = 300.0  # a live run that takes longer is stuck; it is stopped, and the benchmark fails

#: one session for everything: as many shuffle partitions as cores, because Spark's own 200 would slow its queries down
SPARK: dict[str, str | int | bool] = {
    "master": f"local[{PARALLELISM}]",
    "driver.memory": "4g",
    "sql.shuffle.partitions": PARALLELISM,
    "ui.enabled": False,
}


@dataclass(frozen=True, slots=True)
class BacklogRun:
    """A run over a history. `run_seconds`: the whole call, which ends with a look for more input that finds none.
    `flip_seconds`: from the call to the flip, when the backlog is committed and published.
    """

    run_seconds: float
    flip_seconds: float
    epoch: EpochCommitted


def aggregate_job(source: Path, work: Path) -> Job:
    """count(*) and sum(double) per key. Everything that a job writes goes to `work`."""
    job = _job(Source.parquet(source), work).key_by(KEY).aggregate(n="count(*)", total=f"sum({VALUE})")
    return _written(job, work)


def window_job(source: Path, work: Path) -> Job:
    """The same per key and tumbling window, of timed events."""
    events = Source.parquet(source, event_time=TIME, out_of_orderness=f"{DISORDER_S}s")
    windows = _job(events, work).key_by(KEY).window(tumbling=f"{WINDOW_S}s")
    return _written(windows.aggregate(n="count(*)", total=f"sum({VALUE})"), work)


def process_job(source: Path, work: Path) -> Job:
    """The same per key, by a process function, which gives its new values at each record."""
    job = _job(Source.parquet(source), work).key_by(KEY).process(CountAndSum, output=OUTPUT_DDL)
    return _written(job, work)


def run_backlog(session: SparkSession, job: Job) -> BacklogRun:
    """Mixed mode on a fresh checkpoint, until there is nothing new."""
    watch = _Watch(session)
    started = time.perf_counter()
    run_job(job.spec, job.where, RunOptions(until=Until.IDLE, observer=watch, session=session))
    run_seconds = time.perf_counter() - started
    (epoch,) = watch.committed
    assert epoch.path == "sorted", epoch
    return BacklogRun(run_seconds, watch.flipped_at - started, epoch)


def run_live(session: SparkSession, job: Job, feed: Feed) -> list[LiveEpoch]:
    """Mixed mode over what its source holds, then live, one epoch for each file of the feed, then stop."""
    watch = _Watch(session, feed)
    guard = threading.Timer(LIVE_SECONDS_MAX, watch.stop.set)
    guard.start()
    try:
        run_job(job.spec, job.where, RunOptions(observer=watch, stop=watch.stop, session=session))
    finally:
        guard.cancel()
    assert watch.is_fed, f"the live run was stopped after {LIVE_SECONDS_MAX} s, with files that it had not taken"
    return feed.epochs(watch.progress)


def output_of(work: Path) -> Path:
    """Where a job writes its rows."""
    return work / "out"


def _job(events: SourceSpec, work: Path) -> Job:
    return Job(
        "bench",
        sources={"events": events},
        mode="mixed",
        parallelism=PARALLELISM,
        checkpoint_dir=work / "checkpoints",
        spark=SPARK,
    )


def _written(job: Job, work: Path) -> Job:
    return job.write(Sink.parquet(output_of(work)))


@dataclass
class _Watch(Silent):
    """An observer with a stopwatch. With a feed, it lets a file in when the job is live and after each live epoch."""

    session: SparkSession
    feed: Feed | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    committed: list[EpochCommitted] = field(default_factory=list)
    flipped_at: float = 0.0
    is_live: bool = False
    is_fed: bool = False
    #: the live query; a query's progress can still be read when it has stopped
    query: StreamingQuery | None = None

    def on_phase(self, phase: Phase) -> None:
        if phase == "live":
            self.is_live = True
            if self.feed is not None:
                self.feed.let_in()

    def on_epoch_started(self, event: EpochStarted) -> None:  # noqa: ARG002  # as Observer has it
        if self.is_live and self.query is None:
            (self.query,) = self.session.streams.active

    def on_epoch_committed(self, event: EpochCommitted) -> None:
        self.committed.append(event)
        if self.is_live and self.feed is not None and not self.feed.published(event.epoch):
            self.is_fed = True
            self.stop.set()

    def on_flip(self, event: Flipped) -> None:  # noqa: ARG002  # as Observer has it
        self.flipped_at = time.perf_counter()

    @property
    def progress(self) -> Sequence[StreamingQueryProgress]:
        assert self.query is not None, "no live epoch was run"
        return self.query.recentProgress
