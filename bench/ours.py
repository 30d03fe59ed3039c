"""The job under test, as a user would write it, run in this process on the session that its peers use, too."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from bench.feed import Feed, LiveEpoch
from bench.workload import KEY, PARALLELISM, VALUE
from mixedmode.job import Job, Sink, Source
from mixedmode.runtime.events import EpochCommitted, EpochStarted, Flipped, Phase
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


def make_job(source: Path, work: Path) -> Job:
    """count(*) and sum(double) per key. Everything that it writes goes to `work`."""
    return (
        Job(
            "bench",
            sources={"events": Source.parquet(source)},
            mode="mixed",
            parallelism=PARALLELISM,
            checkpoint_dir=work / "checkpoints",
            spark=SPARK,
        )
        .key_by(KEY)
        .aggregate(n="count(*)", total=f"sum({VALUE})")
        .write(Sink.parquet(work / "out"))
    )


def run_backlog(session: SparkSession, source: Path, work: Path) -> BacklogRun:
    """Mixed mode on a fresh checkpoint, until there is nothing new."""
    job, watch = make_job(source, work), _Watch(session)
    started = time.perf_counter()
    run_job(job.spec, job.where, RunOptions(until=Until.IDLE, observer=watch, session=session))
    run_seconds = time.perf_counter() - started
    (epoch,) = watch.committed
    assert epoch.path == "sorted", epoch
    return BacklogRun(run_seconds, watch.flipped_at - started, epoch)


def run_live(session: SparkSession, source: Path, work: Path, feed: Feed) -> list[LiveEpoch]:
    """Mixed mode over what `source` holds, then live, one epoch for each file of the feed, then stop."""
    job, watch = make_job(source, work), _Watch(session, feed)
    guard = threading.Timer(LIVE_SECONDS_MAX, watch.stop.set)
    guard.start()
    try:
        run_job(job.spec, job.where, RunOptions(observer=watch, stop=watch.stop, session=session))
    finally:
        guard.cancel()
    assert watch.is_fed, f"the live run was stopped after {LIVE_SECONDS_MAX} s, with files that it had not taken"
    return feed.epochs(watch.progress)


@dataclass
class _Watch:
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
