"""Partitions of a source, each with a watermark of its own: which records are late, against plain Python.

Partitions come at any time and in any order. A partition may also be NULL, or the empty text, which are the same one.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.config.execution import RuntimeMode
from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Job, Sink, Source
from mixedmode.testing.local_plan import local_plan
from mixedmode.testing.places import job_in_folder
from mixedmode.time import MIN_TIME_US
from tests.differential.stories import local_cases

MS = 1_000
DDL = "k string, t timestamp, p string"
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("p", pa.string())])
Record = tuple[int, str | None]  # time in milliseconds, partition
records = st.lists(st.tuples(st.integers(-5, 20), st.sampled_from([None, "", "x", "y"])), max_size=5)


def expected_late(epochs: Sequence[Sequence[Record]], bound_ms: int) -> int:
    """The number of records in windows of a millisecond that the watermark before their epoch has reached."""
    greatest, watermark, late = dict[str, int](), MIN_TIME_US, 0
    for epoch in epochs:
        late += sum(1 for time, _ in epoch if (time + 1) * MS <= watermark)
        for time, partition in epoch:
            greatest[partition or ""] = max(greatest.get(partition or "", time), time)
        if greatest:
            watermark = max(watermark, (min(greatest.values()) - bound_ms) * MS)
    return late


def found_late(epochs: Sequence[Sequence[Record]], bound_ms: int, base: Path) -> int:
    source = Source.parquet(
        "in",
        schema=DDL,
        event_time="t",
        partition_column="p",
        out_of_orderness=f"{bound_ms}ms",
        max_ahead="none",
    )
    job = Job("parts", sources={"t": source}, mode="batch", parallelism=2, max_parallelism=8)
    made = job.key_by("k").window(tumbling="1ms").aggregate(n="count(*)").write(Sink.parquet("out"))
    placed = job_in_folder(made, {"t": DDL}, base, RuntimeMode.STREAMING)
    run = LocalRun(placed.spec, local_plan(placed.spec, placed.where), base, 0)
    try:
        for epoch in epochs:
            rows = [{"k": "a", "t": time * MS, "p": partition} for time, partition in epoch]
            run.run_live({"t": [pa.Table.from_pylist(rows, SCHEMA)]})
    finally:
        run.close()
    return run.records_late


@given(epochs=st.lists(records, max_size=5), bound_ms=st.sampled_from([0, 0, 3]))
@example(epochs=[[(1, None)], [(10, "x")], [(5, None)]], bound_ms=0)
@example(epochs=[[(1, "")], [], [(10, "x")], [(5, "")]], bound_ms=0)
@local_cases(0.1)
def test_a_record_is_late_by_the_least_watermark_of_all_partitions(epochs: list[list[Record]], bound_ms: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert found_late(epochs, bound_ms, Path(folder)) == expected_late(epochs, bound_ms)
