"""A wide row: twenty columns, eight of them text, and an aggregate of each. What it costs to carry much per record."""

from pathlib import Path

from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Mode, Size, SparkStreaming, Workload, answers_in, in_spark

#: {output: call}, in the order of the answer
_SQL = {
    **{f"t{number}_max": f"max(t{number})" for number in range(8)},
    **{f"d{number}_sum": f"sum(d{number})" for number in range(6)},
    **{f"n{number}_min": f"min(n{number})" for number in range(4)},
    "ts_max": "max(ts)",
}
_ANSWER = f"""
    SELECT k, count(*) AS n, {", ".join(f"{sql} AS {name}" for name, sql in _SQL.items())}
    FROM {events.EVENTS} GROUP BY k
"""


def _job(data: Path, work: Path, mode: Mode) -> Job:
    source = Source.parquet(data / events.EVENTS)
    job = Job("bench", sources={"events": source}, mode=mode, checkpoint_dir=work / "checkpoints")
    return job.key_by("k").aggregate(n="count(*)", **_SQL).write(Sink.parquet(answers_in(work)))


WIDE = Workload(
    name="wide",
    title="rows of twenty columns, eight of them text: an aggregate of each column by key",
    size=Size(2_000_000, 200_000),
    write=events.write_wide,
    job=_job,
    key=("k",),
    answer=_ANSWER,
    version=events.VERSION,
    spark_batch=in_spark(_ANSWER),
    spark_streaming=SparkStreaming(in_spark(_ANSWER)),
)
