"""A wide row: twenty columns, eight of them text, and an aggregate of each. What it costs to carry much per record."""

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Frames, Mode, Size, SparkStreaming, Workload, answers_in

#: {output: (function, column)}, in the order of the answer
_OUTPUTS = {
    **{f"t{number}_max": ("max", f"t{number}") for number in range(8)},
    **{f"d{number}_sum": ("sum", f"d{number}") for number in range(6)},
    **{f"n{number}_min": ("min", f"n{number}") for number in range(4)},
    "ts_max": ("max", "ts"),
}
_SQL = {name: f"{function}({column})" for name, (function, column) in _OUTPUTS.items()}


def _job(data: Path, work: Path, mode: Mode) -> Job:
    source = Source.parquet(data / events.EVENTS)
    job = Job("bench", sources={"events": source}, mode=mode, checkpoint_dir=work / "checkpoints")
    return job.key_by("k").aggregate(n="count(*)", **_SQL).write(Sink.parquet(answers_in(work)))


def _query(frames: Frames) -> DataFrame:
    outputs: list[Column] = [F.expr(sql).alias(name) for name, sql in _SQL.items()]
    return frames[events.EVENTS].groupBy("k").agg(F.count("*").alias("n"), *outputs)


WIDE = Workload(
    name="wide",
    title="rows of twenty columns, eight of them text: an aggregate of each column by key",
    size=Size(2_000_000, 200_000),
    write=events.write_wide,
    job=_job,
    key=("k",),
    answer=f"""
        SELECT k, count(*) AS n, {", ".join(f"{sql} AS {name}" for name, sql in _SQL.items())}
        FROM {events.EVENTS} GROUP BY k
    """,
    version=events.VERSION,
    spark_batch=_query,
    spark_streaming=SparkStreaming(_query),
)
