"""The cost of the second reading of a source: a backlog with windows, whose SQL filters records, or does not.

    pytest -q -s bench/test_second_reading.py

Both jobs have the same rows and results. One filters in the aggregate, so the rows of its SQL have all event times. The
other one filters in a WHERE, so Spark reads JSON and CSV a second time for the watermark (docs/time.md). Tasks read
Parquet themselves, and once. Rounds alternate. The figure is the ratio of the medians of the seconds of the backlog's
epoch.
"""

import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.clock import SystemClock
from mixedmode.job import Job, Sink, Source
from tests.harness import output_rows, run

ROUNDS, FILES, ROWS, KEYS = 3, 4, 1_000_000, 1_000
RATIO_MAX = 2.2  # a reading can double at most all of the work
DDL = "k long, v long, at timestamp, more string"
SPARK: dict[str, Any] = {"master": "local[2]", "ui.enabled": False}
WAYS = {
    "once": ("SELECT k, v + 0 AS v, at FROM t", " filter (where v >= 0)"),
    "twice": ("SELECT k, v + 0 AS v, at FROM t WHERE v >= 0", ""),
}


def events(number: int) -> pa.Table:
    """The events of one file."""
    rng = np.random.default_rng(number)
    rows = ROWS // FILES
    at = np.sort(rng.integers(0, 24 * 3_600_000_000, rows)) + 1_700_000_000_000_000
    more = pa.array([f"a text that no step reads {one}" for one in rng.integers(0, 1000, rows).tolist()])
    times = pa.array(at, pa.timestamp("us", "UTC"))
    return pa.table({"k": rng.integers(0, KEYS, rows), "v": rng.integers(0, 100, rows), "at": times, "more": more})


def write(folder: Path, kind: str) -> None:
    folder.mkdir()
    for number in range(FILES):
        table = events(number)
        if kind == "parquet":
            pq.write_table(table, folder / f"{number}.parquet")
            continue
        table = table.set_column(2, "at", table.column("at").cast(pa.timestamp("us")).cast(pa.string()))
        if kind == "csv":
            options = pyarrow.csv.WriteOptions(include_header=False)
            pyarrow.csv.write_csv(table, folder / f"{number}.csv", options)
        else:
            frame = table.to_pandas()
            frame.to_json(folder / f"{number}.json", orient="records", lines=True)


def seconds(session: SparkSession, base: Path, kind: str, way: str) -> float:
    """Run the backlog; the seconds of its epoch."""
    makes: dict[str, Callable[..., Any]] = {"parquet": Source.parquet, "json": Source.json, "csv": Source.csv}
    source = makes[kind](base / "in", schema=DDL, event_time="at", max_ahead="none")
    sql, condition = WAYS[way]
    for folder in ("checkpoints", "out"):
        shutil.rmtree(base / folder, ignore_errors=True)
    job = Job(
        "reading", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=base / "checkpoints", spark=SPARK
    )
    windows = job.sql(sql).key_by("k").window(tumbling="1h")
    job = windows.aggregate(n=f"count(*){condition}", s=f"sum(v){condition}").write(Sink.parquet(base / "out"))
    first = run(job, session, clock=SystemClock()).committed[0]
    assert first.records == ROWS
    return first.seconds


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_second_reading(session: SparkSession, tmp_path: Path, kind: str) -> None:
    write(tmp_path / "in", kind)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    results = {}
    for number in range(ROUNDS + 1):
        for way, times in found.items():
            spent = seconds(session, tmp_path, kind, way)
            results[way] = sum(row["n"] for row in output_rows(tmp_path / "out"))
            if number:  # the first round warms
                times.append(spent)
    once, twice = (statistics.median(found[way]) for way in ("once", "twice"))
    print(f"\n{kind}: once {once:.2f} s, twice {twice:.2f} s (ratio {twice / once:.2f}, at most {RATIO_MAX})")
    assert results["once"] == results["twice"] > 0
    assert twice / once <= RATIO_MAX
