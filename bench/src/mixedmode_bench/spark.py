"""Spark's own queries for the same: in batch, and as a stateful streaming query.

Both read the files of the workload and write Parquet. The batch query keeps no state. The streaming one keeps it as
Spark recommends for much state, in RocksDB with changelog checkpointing; it takes one file per micro-batch until it is
live, and each micro-batch writes the rows that changed, by `foreachBatch`.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.errors import RetryableError
from mixedmode.keys import group_codes
from mixedmode_bench.contestant import EpochSpan, Outcome, Task
from mixedmode_bench.feed import Feed, fed_data, first_table, live_parts, trigger_time, with_events
from mixedmode_bench.session import LIVE_SECONDS_MAX, OnSpark
from mixedmode_bench.tables import frame_of, schema_of
from mixedmode_bench.workload import Frames, Workload, answers_in

SECONDS_MAX = 3600  # a query that takes longer is stuck; it is stopped, and the benchmark fails
LIVE_TRIGGER = {"processingTime": "1 second"}  # the default interval of mixedmode's live epochs
STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_EPOCH = "epoch="

Publish = Callable[[int], None]


class SparkContestant(OnSpark):
    """The common part of Spark's contestants: they know the columns of their input, as a user would write them down."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._schemas: dict[Path, dict[str, StructType]] = {}

    @override
    def prepare(self, task: Task) -> None:
        tables = sorted(path for path in task.data.iterdir() if path.is_dir())
        self._schemas[task.data] = {path.name: schema_of(self.session, path) for path in tables}

    def schemas(self, task: Task) -> dict[str, StructType]:
        """{table: its columns}. Requires `prepare`."""
        return self._schemas[task.data]


class SparkBatch(SparkContestant):
    """One batch query, which writes its result and keeps nothing."""

    name: ClassVar[str] = "spark-batch"
    title: ClassVar[str] = "Spark batch"

    @override
    def takes(self, workload: Workload) -> bool:
        """Return whether the workload has a batch query and no live epochs."""
        return workload.spark_batch is not None and workload.feed is None

    @override
    def run(self, task: Task) -> Outcome:
        assert task.workload.spark_batch is not None, task.workload.name
        began = time.perf_counter()
        frames = {
            table: frame_of(self.session.read, task.data / table, schema)
            for table, schema in self.schemas(task).items()
        }
        task.workload.spark_batch(frames).write.parquet(str(answers_in(task.work)))
        seconds = time.perf_counter() - began
        return Outcome(seconds, epochs=(EpochSpan(0.0, seconds, task.size.events, is_backlog=True),))

    @override
    def answer(self, task: Task) -> pa.Table:
        return _instants(pq.read_table(answers_in(task.work), coerce_int96_timestamp_unit="us"))


class StreamingQueryContestant(SparkContestant, ABC):
    """Any of Spark's stateful streaming queries: over what is there, then, with a feed, live.

    `seconds` is the time for what is there, or, with a feed, that of the live epochs.
    """

    files_per_epoch: ClassVar[int | None] = None

    def __init__(self) -> None:
        super().__init__(STATE_STORE)

    @abstractmethod
    def query(self, workload: Workload, frames: Frames) -> DataFrame:
        """Return the query over streams."""

    def output_mode(self, workload: Workload) -> Literal["append", "update"]:  # noqa: ARG002  # others look at it
        """Return the output mode: the rows that a micro-batch emits."""
        return "update"

    @override
    def run(self, task: Task) -> Outcome:
        began_at, began = time.time(), time.perf_counter()
        data = fed_data(task) if task.waiting else task.data
        published: dict[int, float] = {}
        with self._started(task, data, {"availableNow": True}, lambda n: published.update({n: time.time()})) as query:
            _finish(query)
        seconds = time.perf_counter() - began
        spans = _backlog_spans(query.recentProgress, published, began_at)
        if not task.waiting:
            return Outcome(seconds, epochs=with_events(spans, task.size.events))
        live = self._run_live(task, data, began_at)
        parts = {"start to flip": seconds, **live_parts(live), "whole run": time.perf_counter() - began}
        return Outcome(sum(s.seconds for s in live), parts, (*spans, *live))

    @override
    def answer(self, task: Task) -> pa.Table:
        key = task.workload.key if self.output_mode(task.workload) == "update" else ()
        return newest_rows(answers_in(task.work), key)

    def _run_live(self, task: Task, data: Path, began_at: float) -> tuple[EpochSpan, ...]:
        """Goes on from where it stands: one micro-batch for each file of the feed."""
        feed, is_fed = Feed(task.waiting, first_table(data)), threading.Event()

        def publish(epoch: int) -> None:
            if not feed.published(epoch):
                is_fed.set()

        feed.let_in()
        with self._started(task, data, LIVE_TRIGGER, publish) as query:
            _await_feed(query, is_fed)
            query.processAllAvailable()  # returns when the last micro-batch has reported its progress
            return feed.spans(query.recentProgress, began=began_at)

    @contextmanager
    def _started(
        self, task: Task, data: Path, trigger: Mapping[str, object], publish: Publish
    ) -> Iterator[StreamingQuery]:
        """The query under way. Each micro-batch writes its rows as Parquet, then calls `publish`."""

        def write(changed: DataFrame, epoch: int) -> None:
            changed.write.mode("overwrite").parquet(str(answers_in(task.work) / f"{_EPOCH}{epoch}"))
            publish(epoch)

        reader = self.session.readStream
        if self.files_per_epoch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_epoch)
        frames = {table: frame_of(reader, data / table, schema) for table, schema in self.schemas(task).items()}
        query: StreamingQuery = (
            self.query(task.workload, frames)
            .writeStream.outputMode(self.output_mode(task.workload))
            .foreachBatch(write)
            .option("checkpointLocation", str(task.work / "checkpoint"))
            .trigger(**trigger)  # type: ignore[call-overload]  # one of its forms
            .start()
        )
        try:
            yield query
        finally:
            query.stop()


class SparkStreaming(StreamingQueryContestant):
    """Structured Streaming with its native operators."""

    name = "spark-streaming"
    title = "Spark Structured Streaming, RocksDB with changelog"
    files_per_epoch = 1

    @override
    def takes(self, workload: Workload) -> bool:
        return workload.spark_streaming is not None

    @override
    def query(self, workload: Workload, frames: Frames) -> DataFrame:
        assert workload.spark_streaming is not None, workload.name
        return workload.spark_streaming.query(frames)

    @override
    def output_mode(self, workload: Workload) -> Literal["append", "update"]:
        assert workload.spark_streaming is not None, workload.name
        return workload.spark_streaming.output_mode


def newest_rows(folder: Path, key: tuple[str, ...]) -> pa.Table:
    """The rows below `folder`/epoch=N of all epochs; with a key, of each key the last one. Rows of one epoch are in
    no order, so a key has one there.
    """
    epochs = sorted(folder.iterdir(), key=lambda path: int(path.name.removeprefix(_EPOCH)))
    rows = pa.concat_tables(_instants(pq.read_table(epoch, coerce_int96_timestamp_unit="us")) for epoch in epochs)
    if not key:
        return rows
    codes = group_codes([rows.column(name).combine_chunks() for name in key])
    newest = np.full(len(codes.first_row), -1, np.int64)
    np.maximum.at(newest, codes.codes, np.arange(rows.num_rows))
    return rows.take(pa.array(newest))


def _instants(rows: pa.Table) -> pa.Table:
    """Spark's timestamps are instants; the form in which it writes them says nothing of a time zone."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            rows = rows.set_column(place, field.name, rows.column(place).cast(pa.timestamp("us", "UTC")))
    return rows


def _backlog_spans(
    progress: Iterable[StreamingQueryProgress], published: Mapping[int, float], began_at: float
) -> tuple[EpochSpan, ...]:
    """The micro-batches that were published, at these moments in epoch seconds, each from its trigger on."""
    return tuple(
        EpochSpan(
            trigger_time(batch) - began_at, published[batch.batchId] - began_at, batch.numInputRows, is_backlog=True
        )
        for batch in progress
        if batch.batchId in published and "addBatch" in batch.durationMs
    )


def _finish(query: StreamingQuery) -> None:
    if not query.awaitTermination(SECONDS_MAX):
        msg = f"Spark's streaming query did not end, so it was stopped. Give it less. seconds={SECONDS_MAX}"
        raise RetryableError(msg)


def _await_feed(query: StreamingQuery, is_fed: threading.Event) -> None:
    deadline = time.monotonic() + LIVE_SECONDS_MAX
    while not is_fed.wait(0.05):
        if time.monotonic() > deadline or not query.isActive:
            msg = (
                "Spark's live query stopped, or did not take its feed in time. Look at Spark's log, or run it on a "
                f"machine that does less. seconds={LIVE_SECONDS_MAX:.0f}, cause={query.exception()}"
            )
            raise RetryableError(msg)
