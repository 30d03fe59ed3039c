"""This program as a contestant, in each of its modes: real jobs, as a user would write them, and a stopwatch.

Mixed and streaming mode run until the job is live and nothing is new. With a feed they go on, one live epoch for each
of its files. `Outcome.seconds` is the time until the job is live: in mixed mode, the result of the backlog is published
then, its state is in RocksDB files, and the checkpoint is taken. With a feed it is the time of the live epochs.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from typing_extensions import override

from mixedmode.driver.events import EpochCommitted, EpochStarted, Event, PhaseBegan
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InternalError, RetryableError
from mixedmode.sinks.table import current_table
from mixedmode_bench.contestant import EpochSpan, Outcome, Task
from mixedmode_bench.feed import Feed, fed_data, first_table, live_parts, with_events
from mixedmode_bench.session import LIVE_SECONDS_MAX, OnSpark
from mixedmode_bench.workload import Mode, Workload, answers_in


class _Ours(OnSpark):
    """The common part of the modes; `mode` says which one is run."""

    mode: ClassVar[Mode]

    @override
    def takes(self, workload: Workload) -> bool:  # every workload has a job
        return True

    @override
    def prepare(self, task: Task) -> None:
        """Do nothing: a job needs only its input."""

    @override
    def run(self, task: Task) -> Outcome:
        if task.waiting:
            return self._run_live(task)
        watch = _Watch(self.session)
        job = task.workload.job(task.data, task.work, self.mode)
        run_job(job.spec, job.where, RunOptions(until=Until.IDLE, observers=[watch], session=self.session))
        whole_s = watch.now()
        ready_s = watch.live_at if watch.live_at is not None else whole_s
        parts = {"start": watch.spans[0].start_s} if watch.spans else {}
        if self.mode == "mixed" and watch.spans:
            backlog = watch.spans[0]
            parts |= {"backlog": backlog.seconds, "flip": ready_s - backlog.end_s}
        return Outcome(
            ready_s, {**parts, "whole run": whole_s}, with_events(watch.spans, task.size.events), dict(watch.profile)
        )

    @override
    def answer(self, task: Task) -> pa.Table:
        found = current_table(str(answers_in(task.work)))
        if found is None:
            msg = f"the job has written no output. Report it. workload={task.workload.name}, mode={self.mode}"
            raise InternalError(msg)
        return found.rows

    def _run_live(self, task: Task) -> Outcome:
        """Over what is there, then live, one epoch for each file of the feed, then stop."""
        data = fed_data(task)
        feed = Feed(task.waiting, first_table(data))
        watch = _Watch(self.session, feed)
        job = task.workload.job(data, task.work, self.mode)
        guard = threading.Timer(LIVE_SECONDS_MAX, watch.stop.set)
        guard.start()
        try:
            run_job(job.spec, job.where, RunOptions(observers=[watch], stop=watch.stop, session=self.session))
        finally:
            guard.cancel()
        if not watch.is_fed or watch.live_at is None:
            msg = (
                "a live job has not taken all files of its feed in time, so it was stopped. Look at Spark's log, or "
                f"run it on a machine that does less. workload={task.workload.name}, seconds={LIVE_SECONDS_MAX:.0f}"
            )
            raise RetryableError(msg)
        live = feed.spans(watch.progress, began=watch.began)
        backlog = tuple(span for span in watch.spans if span.end_s <= watch.live_at)
        parts = {"start to flip": watch.live_at, **live_parts(live), "whole run": watch.now()}
        return Outcome(sum(s.seconds for s in live), parts, (*backlog, *live), dict(watch.profile))


class Mixed(_Ours):
    """Mixed mode."""

    name = "mixed"
    title = "mixedmode, mixed"
    mode = "mixed"


class Batch(_Ours):
    """Batch mode: everything once, no state, no checkpoint. It has no live epochs."""

    name = "batch"
    title = "mixedmode, batch"
    mode = "batch"

    @override
    def takes(self, workload: Workload) -> bool:
        return workload.feed is None


class Streaming(_Ours):
    """Streaming mode: what is there is cut into epochs of about a second, each with its commit."""

    name = "streaming"
    title = "mixedmode, streaming"
    mode = "streaming"


@dataclass
class _Watch:
    """An observer with a stopwatch. With a feed, it lets a file in when the job is live and after each live epoch."""

    session: SparkSession
    feed: Feed | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.time)
    spans: list[EpochSpan] = field(default_factory=list)
    #: {stage: seconds of work}, over all epochs
    profile: dict[str, float] = field(default_factory=dict)
    live_at: float | None = None
    is_fed: bool = False
    #: the live query; a query's progress can still be read when it has stopped
    query: StreamingQuery | None = None
    _began: float = field(default_factory=time.perf_counter)
    _started_s: float = 0.0

    def now(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._began

    def __call__(self, event: Event) -> None:
        """Note the time of an event."""
        match event:
            case PhaseBegan("live"):
                self.live_at = self.now()
                if self.feed is not None:
                    self.feed.let_in()
            case EpochStarted():
                self._epoch_started()
            case EpochCommitted():
                self._epoch_committed(event)
            case _:
                pass

    def _epoch_started(self) -> None:
        self._started_s = self.now()
        if self.live_at is not None and self.feed is not None and self.query is None:
            (self.query,) = self.session.streams.active

    def _epoch_committed(self, event: EpochCommitted) -> None:
        self.spans.append(EpochSpan(self._started_s, self.now(), event.records, self.live_at is None))
        for stage, seconds in event.profile.items():
            self.profile[stage] = self.profile.get(stage, 0.0) + seconds
        if self.live_at is not None and self.feed is not None and not self.feed.published(event.epoch):
            self.is_fed = True
            self.stop.set()

    @property
    def progress(self) -> Sequence[StreamingQueryProgress]:
        assert self.query is not None, "no live epoch was run"
        return self.query.recentProgress
