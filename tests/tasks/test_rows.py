"""Rows that tasks write as they are: what their files are like."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_rows, run, write_parquet

pytestmark = pytest.mark.spark

ROWS = 300_000


def test_rows_that_come_in_many_batches_are_written_in_few_row_groups(spark: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in", "a.parquet", pa.table({"k": np.arange(ROWS), "v": np.arange(ROWS) * 0.5}))
    job = Job(
        "rows", mode="batch", sources={"t": Source.parquet(tmp_path / "in", bounded=True)}, parallelism=1, spark=SPARK
    )
    run(job.sql("SELECT k, v FROM t WHERE k >= 0").write(Sink.parquet(tmp_path / "out")), spark)
    files = [pq.ParquetFile(file) for file in (tmp_path / "out").rglob("*.parquet")]
    assert sum(file.metadata.num_rows for file in files) == ROWS
    assert {file.metadata.num_row_groups for file in files} == {1}


def test_a_clock_that_is_allowed_gives_all_rows_of_an_epoch_one_time(spark: SparkSession, tmp_path: Path) -> None:
    """Together with what takes one record at a time in ways that Spark plans as joins or generators."""
    for name in ("a", "b"):
        write_parquet(tmp_path / "in", f"{name}.parquet", pa.table({"file": [name], "l": [[1, 2]]}))
    job = Job(
        "times",
        mode="mixed",
        sources={"t": Source.parquet(tmp_path / "in")},
        checkpoint_dir=tmp_path / "checkpoints",
        spark=SPARK,
    )
    sql = (
        "SELECT file, x, y, name, (SELECT n FROM VALUES (2, 'two') AS o(i, n) WHERE i = x) AS n, now() AS at "
        "FROM (SELECT file, explode(l) AS x FROM t) AS e LEFT JOIN VALUES (1, 'one') AS v(k, name) ON x = k, "
        "LATERAL (SELECT x + 1 AS y) WHERE x NOT IN (SELECT * FROM VALUES (7))"
    )
    later = pa.table({"file": ["c"], "l": [[1, 2]]})
    steps = job.sql(sql, clock="allowed").write(Sink.parquet(tmp_path / "out"))
    run(steps, spark, feed=[lambda: write_parquet(tmp_path / "in", "c.parquet", later)])
    rows = output_rows(tmp_path / "out")
    found = sorted((row["file"], row["x"], row["y"], row["name"], row["n"]) for row in rows)
    assert found == [row for file in "abc" for row in ((file, 1, 2, "one", None), (file, 2, 3, None, "two"))]
    times = {file: {row["at"] for row in rows if row["file"] == file} for file in "abc"}
    assert times["a"] == times["b"], "one time for the backlog"
    assert len(times["a"]) == len(times["c"]) == 1
    assert max(times["a"]) < min(times["c"]), "and a later one for the live epoch"


def test_a_struct_that_is_null_is_written_although_its_fields_are_never_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's arrays have NULL in the fields of such a struct; the rows of an output and late rows have one."""

    def arrive(name: str, hour: int) -> None:
        at = pa.array([datetime(2001, 1, 1, hour, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
        write_parquet(tmp_path / "in", name, pa.table({"v": [0, 1], "at": at}))

    arrive("a.parquet", 9)
    source = Source.parquet(tmp_path / "in", schema="v bigint, at timestamp", event_time="at")
    job = Job("structs", mode="mixed", sources={"t": source}, checkpoint_dir=tmp_path / "checkpoints", spark=SPARK)
    sql = "SELECT *, CASE WHEN v > 0 THEN struct(1 AS a, array(struct('x' AS b), NULL) AS l) END AS s FROM t"
    rows = job.source("t").sql(sql, name="rows")
    hours = rows.key_by("v").window(tumbling="1h", late=Sink.parquet(tmp_path / "late")).aggregate(n="count(s)")
    job = job.output("rows", rows, Sink.parquet(tmp_path / "rows")).output("hours", hours, Sink.json(tmp_path / "out"))
    run(job, spark, feed=[lambda: arrive("b.parquet", 7)])
    one = {"a": 1, "l": [{"b": "x"}, None]}
    expected: list[dict[str, Any] | None] = [None, one]
    assert sorted((row["s"] for row in output_rows(tmp_path / "rows")), key=str) == sorted(2 * expected, key=str)
    assert sorted((row["s"] for row in output_rows(tmp_path / "late")), key=str) == sorted(expected, key=str)
