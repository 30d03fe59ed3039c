"""Counts and sums by key: the main workload, and the same with words, with skewed keys, and live.

All of them read one table and group it by one column, so each is two things only: its data, and its outputs. FLIP-327
measures a reduce of longs over as many records; count-sum does that and counts as well, so it stands for it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from mixedmode.job import Job, Sink, Source
from mixedmode_bench import events
from mixedmode_bench.workload import Mode, Size, SparkStreaming, Workload, answers_in, in_spark

Feed = Callable[[Path, Size], list[Path]]
Write = Callable[[Path, Size], None]


def _job(schema: str, key: str, value: str | None, data: Path, work: Path, mode: Mode) -> Job:
    """count(*) by `key`, and the sum of `value` if there is one."""
    job = Job(
        "bench",
        sources={"events": Source.parquet(data / events.EVENTS, schema=schema)},
        mode=mode,
        checkpoint_dir=work / "checkpoints",
    )
    outputs = {"n": "count(*)"} if value is None else {"n": "count(*)", "total": f"sum({value})"}
    return job.key_by(key).aggregate(**outputs).write(Sink.parquet(answers_in(work)))


def _workload(  # one parameter for each thing in which they differ
    name: str, title: str, size: Size, write: Write, key: str, value: str | None, feed: Feed | None = None
) -> Workload:
    schema = f"{key} string" if value is None else f"{key} long, {value} double"  # peers are told it, too
    total = "" if value is None else f", sum({value}) AS total"
    answer = f"SELECT {key}, count(*) AS n{total} FROM {events.EVENTS} GROUP BY {key}"
    return Workload(
        name=name,
        title=title,
        size=size,
        write=write,
        job=partial(_job, schema, key, value),
        key=(key,),
        answer=answer,
        version=events.VERSION,
        spark_batch=in_spark(answer),
        spark_streaming=SparkStreaming(in_spark(answer)),
        flink=None if feed is not None else name if name != "skewed" else "count-sum",
        feed=feed,
    )


COUNT_SUM = _workload(
    "count-sum",
    "count(*) and sum(double) by a long key, drawn evenly; the shape of FLIP-327's benchmark",
    Size(10_000_000, 1_000_000),
    events.write_counts,
    "k",
    "v",
)
COUNT_SUM_40M = replace(
    COUNT_SUM,
    name="count-sum-40m",
    title="count-sum at four times the size",
    size=Size(40_000_000, 4_000_000),
    data=COUNT_SUM.name,
)
WORD_COUNT = _workload(
    "word-count",
    "count(*) by a word of eight letters; FLIP-140's benchmark",
    Size(40_000_000, 4_000_000),
    events.write_words,
    "word",
    None,
)
SKEWED = _workload(
    "skewed",
    f"count-sum over keys whose frequency falls by Zipf's law, exponent {events.ZIPF_EXPONENT}",
    Size(10_000_000, 1_000_000),
    events.write_skewed,
    "k",
    "v",
)
LIVE = _workload(
    "live",
    "count-sum live: a state with each key once, then epochs of half a million events, then of 20,000",
    Size(3_200_000, 2_000_000),
    events.write_each_key_once,
    "k",
    "v",
    events.write_feed,
)
