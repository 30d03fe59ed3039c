"""What the jobs are compared with: queries that Spark offers for the same, in batch and as stateful streaming queries.

All read the files and compute the columns of bench/ours.py, and write Parquet. A batch query keeps no state. A
streaming one keeps it as Spark recommends for much state: in RocksDB, with changelog checkpointing.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.streaming.query import StreamingQuery

from bench.feed import Feed, LiveEpoch
from bench.processor import OUTPUT_DDL, CountAndSum
from bench.workload import DISORDER_S, KEY, SCHEMA_DDL, TIME, TIMED_SCHEMA_DDL, VALUE, WINDOW_S

SECONDS_MAX = 900  # a query that takes longer is stuck; it is stopped, and the benchmark fails
LIVE_TRIGGER = {"processingTime": "1 second"}  # the default interval of mixedmode's live epochs

#: of streaming queries; set on the session that all benchmarks share, where nothing else looks at them
STATE_STORE = {
    "sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A query. `is_cut`: it takes one file per micro-batch, else all that is there, which suits some better."""

    name: str
    schema_ddl: str
    query: Callable[[DataFrame], DataFrame]
    output_mode: Literal["append", "update"] = "update"
    is_cut: bool = True


def aggregated(events: DataFrame) -> DataFrame:
    """count(*) and sum(double) per key."""
    return events.groupBy(KEY).agg(F.count("*").alias("n"), F.sum(VALUE).alias("total"))


def windowed(events: DataFrame) -> DataFrame:
    """The same per key and tumbling window."""
    windows = events.withWatermark(TIME, f"{DISORDER_S} seconds").groupBy(F.window(TIME, f"{WINDOW_S} seconds"), KEY)
    counted = windows.agg(F.count("*").alias("n"), F.sum(VALUE).alias("total"))
    return counted.select(F.col("window.start").alias("window_start"), KEY, "n", "total")


def processed(events: DataFrame) -> DataFrame:
    """The same per key, by a function in Python; only as a streaming query."""
    return events.groupBy(KEY).transformWithState(CountAndSum(), OUTPUT_DDL, "Update", "None")


GROUP_BY = Peer("groupBy", SCHEMA_DDL, aggregated)
WINDOWS_APPEND = Peer("windows, append", TIMED_SCHEMA_DDL, windowed, "append")
WINDOWS_UPDATE = Peer("windows, update", TIMED_SCHEMA_DDL, windowed, "update")
PROCESS = Peer("transformWithState", SCHEMA_DDL, processed, is_cut=False)


def run_batch(session: SparkSession, peer: Peer, source: Path, work: Path) -> float:
    """Seconds that the batch query takes."""
    started = time.perf_counter()
    peer.query(session.read.schema(peer.schema_ddl).parquet(str(source))).write.parquet(str(work / "out"))
    return time.perf_counter() - started


def run_streaming(session: SparkSession, peer: Peer, source: Path, work: Path) -> float:
    """Seconds that the streaming query takes for all that is there."""
    started = time.perf_counter()
    query = _start(session, peer, source, work, {"availableNow": True}, lambda _epoch: None)
    _finish(query)
    return time.perf_counter() - started


def run_streaming_live(session: SparkSession, peer: Peer, source: Path, work: Path, feed: Feed) -> list[LiveEpoch]:
    """The streaming query goes on from where `run_streaming` left it: one micro-batch for each file of the feed."""
    is_fed = threading.Event()

    def publish(epoch: int) -> None:
        if not feed.published(epoch):
            is_fed.set()

    feed.let_in()
    query = _start(session, peer, source, work, LIVE_TRIGGER, publish)
    try:
        _await_feed(query, is_fed)
        query.processAllAvailable()  # returns when the last micro-batch has reported its progress
        return feed.epochs(query.recentProgress)
    finally:
        query.stop()


def _start(
    session: SparkSession,
    peer: Peer,
    source: Path,
    work: Path,
    trigger: Mapping[str, object],
    publish: Callable[[int], None],
) -> StreamingQuery:
    """Start the streaming query. Each micro-batch writes what it gives as Parquet, then calls `publish`."""

    def write(changed: DataFrame, epoch: int) -> None:
        changed.write.mode("overwrite").parquet(str(work / "out" / f"epoch={epoch}"))
        publish(epoch)

    reader = session.readStream.schema(peer.schema_ddl)
    if peer.is_cut:
        reader = reader.option("maxFilesPerTrigger", 1)
    query: StreamingQuery = (
        peer.query(reader.parquet(str(source)))
        .writeStream.outputMode(peer.output_mode)
        .foreachBatch(write)
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(**trigger)  # type: ignore[call-overload]  # one of its forms
        .start()
    )
    return query


def _finish(query: StreamingQuery) -> None:
    if not query.awaitTermination(SECONDS_MAX):
        query.stop()
        msg = f"Spark's streaming query did not end in {SECONDS_MAX} s"
        raise TimeoutError(msg)


def _await_feed(query: StreamingQuery, is_fed: threading.Event) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_fed.wait(0.1):
        if time.monotonic() > deadline or not query.isActive:
            msg = f"Spark's streaming query stopped, or did not take the feed in {SECONDS_MAX} s: {query.exception()}"
            raise TimeoutError(msg)
