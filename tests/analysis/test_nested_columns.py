"""Columns with parts in SQL that becomes keyed steps: the rows are those of Spark's batch, with structs and arrays."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.job import Job, Source
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph
from tests.analysis.grouped_rows import shown

pytestmark = pytest.mark.spark

DDL = "k string, id int, at timestamp, s struct<x:double,y:string>, a array<struct<v:int>>, m map<string,array<int>>"
START = datetime(2024, 1, 1, tzinfo=UTC)
LAST = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM t"


def row(number: int) -> dict[str, Any]:
    return {
        "k": "abc"[number % 3],
        "id": number,
        "at": START + timedelta(minutes=number),
        "s": None if number % 5 == 0 else {"x": [-0.0, 0.0, float("nan"), None][number % 4], "y": "yz"[number % 2]},
        "a": None if number % 7 == 0 else [{"v": number % 2}, None][: number % 3],
        "m": {str(number % 4): [number, None]} if number % 3 else None,
    }


ROWS = [row(number) for number in range(40)]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[DataFrame]:
    frame = spark.createDataFrame(ROWS, DDL).cache()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, id, n, s.y, a, m, s FROM ({LAST}) WHERE n <= 2",
        "SELECT k, max(struct(at, s, id)).s AS s, max(struct(id, a)).a AS a FROM t GROUP BY k",
        "SELECT s.y, max_by(m, id) AS m, max_by(id, s) IS NULL AS none, max(a) AS a, min(s.x) AS x FROM t GROUP BY s.y",
        "SELECT k, count(DISTINCT s) AS n, count(a) AS lists, count(m) AS maps FROM t GROUP BY k",
        "SELECT window.start, max_by(s, id).y AS y, get(max_by(a, id), 0).v FROM t GROUP BY window(at, '9 minutes')",
        f"SELECT s.y, max_by(a, id) AS a, count(*) AS n FROM (SELECT * FROM ({LAST}) WHERE n = 1) GROUP BY s.y",
        "SELECT l.id, l.s, r.a, r.m FROM t l JOIN t r ON l.k = r.k AND l.id = r.id + 3 WHERE size(l.a) > 0",
    ],
)
def test_columns_with_parts_are_those_of_sparks_batch(spark: SparkSession, table: DataFrame, sql: str) -> None:
    job = Job("nested", sources={"t": Source.parquet("in", schema=DDL, event_time="at")}, mode="batch")
    with views(spark, {"t": table}):
        expected = Counter(shown(one.asDict(recursive=True)) for one in spark.sql(sql).collect())
    found = run_graph(job.sql(sql), {"t": ROWS[:25]}, live=[{"t": ROWS[25:]}]).table()
    maps = [
        {name: dict(value) if name == "m" and value is not None else value for name, value in one.items()}
        for one in found
    ]
    assert Counter(map(shown, maps)) == expected
