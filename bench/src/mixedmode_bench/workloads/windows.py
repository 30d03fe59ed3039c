"""Windows of event time: counts and sums by key and minute.

Every event is in time, and each window is emitted when the watermark has reached its end. A run over an input without
an end may lack those of the last minute; Spark's streaming query, in update mode, emits them early, with the same
values.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Frames, Mode, Size, SparkStreaming, Workload, answers_in

_MINUTE_S = 60


def _job(data: Path, work: Path, mode: Mode) -> Job:
    source = Source.parquet(
        data / events.EVENTS,
        schema="k long, v double, ts timestamp",
        event_time="ts",
        out_of_orderness=f"{events.DISORDER_S}s",
    )
    job = Job("bench", sources={"events": source}, mode=mode, checkpoint_dir=work / "checkpoints")
    windows = job.key_by("k").window(tumbling=f"{_MINUTE_S}s")
    return windows.aggregate(n="count(*)", total="sum(v)").write(Sink.parquet(answers_in(work)))


def _query(frames: Frames) -> DataFrame:
    timed = frames[events.EVENTS].withWatermark("ts", f"{events.DISORDER_S} seconds")
    windows = timed.groupBy(F.window("ts", f"{_MINUTE_S} seconds"), "k")
    counted = windows.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    times = (F.col(f"window.{end}").alias(f"window_{end}") for end in ("start", "end"))
    return counted.select(*times, "k", "n", "total")


WINDOWS = Workload(
    name="windows",
    title="count(*) and sum(double) by key and tumbling window of a minute, events up to ten seconds out of order",
    size=Size(10_000_000, 10_000),
    write=events.write_timed,
    job=_job,
    key=("window_start", "window_end", "k"),
    answer=f"""
        SELECT to_timestamp(minute * {_MINUTE_S}) AS window_start,
               to_timestamp((minute + 1) * {_MINUTE_S}) AS window_end, k, count(*) AS n, sum(v) AS total
        FROM (SELECT k, v, epoch_us(ts) // {_MINUTE_S * 1_000_000} AS minute FROM {events.EVENTS})
        GROUP BY k, minute
    """,
    version=events.VERSION,
    spark_batch=_query,
    spark_streaming=SparkStreaming(_query),
    may_lack=f"""
        epoch_us(window_end) > (SELECT max(epoch_us(ts)) FROM {events.EVENTS}) - {events.DISORDER_S * 1_000_000}
    """,
)
