"""What the job is compared with: Spark's own `groupBy`, in batch and as a stateful streaming query.

Both read the files and compute the columns of bench/ours.py, and write Parquet. The batch query keeps no state. The
streaming one keeps it as Spark recommends for much state: in RocksDB, with changelog checkpointing.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.streaming.query import StreamingQuery

from bench.feed import Feed, LiveEpoch
from bench.workload import KEY, SCHEMA_DDL, VALUE

SECONDS_MAX = 600  # a query that takes longer is stuck; it is stopped, and the benchmark fails
LIVE_TRIGGER = {"processingTime": "1 second"}  # the default interval of mixedmode's live epochs

#: of streaming queries; set on the session that all benchmarks share, where nothing else looks at them
STATE_STORE = {
    "sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def run_batch(session: SparkSession, source: Path, work: Path) -> float:
    """Seconds that the batch query takes."""
    started = time.perf_counter()
    aggregated(session.read.schema(SCHEMA_DDL).parquet(str(source))).write.parquet(str(work / "out"))
    return time.perf_counter() - started


def run_streaming(session: SparkSession, source: Path, work: Path) -> float:
    """Seconds that the streaming query takes for all that is there, one file per micro-batch."""
    started = time.perf_counter()
    query = _start(session, source, work, {"availableNow": True}, lambda _epoch: None)
    _finish(query)
    return time.perf_counter() - started


def run_streaming_live(session: SparkSession, source: Path, work: Path, feed: Feed) -> list[LiveEpoch]:
    """The streaming query over what `source` holds, then live, one micro-batch for each file of the feed, then stop."""
    run_streaming(session, source, work)
    is_fed = threading.Event()

    def publish(epoch: int) -> None:
        if not feed.published(epoch):
            is_fed.set()

    feed.let_in()
    query = _start(session, source, work, LIVE_TRIGGER, publish)
    try:
        _await_feed(query, is_fed)
        query.processAllAvailable()  # returns when the last micro-batch has reported its progress
        return feed.epochs(query.recentProgress)
    finally:
        query.stop()


def aggregated(events: DataFrame) -> DataFrame:
    """count(*) and sum(double) per key."""
    return events.groupBy(KEY).agg(F.count("*").alias("n"), F.sum(VALUE).alias("total"))


def _start(
    session: SparkSession, source: Path, work: Path, trigger: Mapping[str, object], publish: Callable[[int], None]
) -> StreamingQuery:
    """Start the streaming query. Each micro-batch writes its changed rows as Parquet, then calls `publish`."""

    def write(changed: DataFrame, epoch: int) -> None:
        changed.write.mode("overwrite").parquet(str(work / "out" / f"epoch={epoch}"))
        publish(epoch)

    events = session.readStream.schema(SCHEMA_DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
    query: StreamingQuery = (
        aggregated(events)
        .writeStream.outputMode("update")
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
