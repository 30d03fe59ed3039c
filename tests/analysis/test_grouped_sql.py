"""The keyed step in the message that refuses a GROUP BY: written into a job, it returns the rows of the SQL."""

from collections import Counter

import pytest
import yaml
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import read_query
from mixedmode.job import Job, Source
from mixedmode.testing import run_graph

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, `odd name` int"
VALUES = [("a", 1), ("a", 3), ("b", 2), (None, 4), ("a", None), ("b, c", 3)]
ROWS = [{"k": k, "v": v, "odd name": number % 2} for number, (k, v) in enumerate(VALUES)]


@pytest.fixture(autouse=True)
def input_t(spark: SparkSession) -> None:
    spark.createDataFrame(ROWS, DDL).createOrReplaceTempView("t")


def step_of(spark: SparkSession, sql: str) -> str:
    """The keyed step of the aggregate that is the top of a query."""
    plan = read_query(spark, sql, inputs=["t"]).node
    assert plan is not None
    assert plan.kind == "Aggregate"
    return plan.name


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, count(*) AS n FROM t GROUP BY k", "key-by: [k], aggregate: {n: count(1)}"),
        ("SELECT sum(v), k FROM t GROUP BY ALL", "key-by: [k], aggregate: {sum_v: sum(v)}"),
        (
            "SELECT upper(x.k) AS u, max(x.v) FILTER (WHERE x.v > 1) AS m FROM t AS x GROUP BY 1",
            "key-by: [upper(k) AS u], aggregate: {m: max(v) FILTER (WHERE (v > CAST(1 AS BIGINT)))}",
        ),
        (
            "SELECT k AS name, v % 2 = 1 AS odd, count(DISTINCT v) AS c, min(k) AS least FROM t GROUP BY v % 2 = 1, k",
            (
                "key-by: [k AS name, ((v % CAST(2 AS BIGINT)) = CAST(1 AS BIGINT)) AS odd], "
                "aggregate: {c: count(DISTINCT v), least: min(k)}"
            ),
        ),
        (
            "SELECT `odd name`, max(if(`odd name` = 1, k, 'x, y: z')) AS n FROM t GROUP BY `odd name`",
            "key-by: [odd name], aggregate: {n: 'max((IF((`odd name` = 1), k, ''x, y: z'')))'}",
        ),
    ],
)
def test_it_returns_the_rows_of_the_sql(spark: SparkSession, sql: str, expected: str) -> None:
    text = step_of(spark, sql)
    assert text == expected
    step = yaml.safe_load(f"{{{text}}}")
    job = Job("grouped", sources={"t": Source.parquet("in", schema=DDL)}, mode="batch")
    found = run_graph(job.key_by(*step["key-by"]).aggregate(**step["aggregate"]), {"t": ROWS}).table()
    by_sql = [row.asDict() for row in spark.sql(sql).collect()]
    assert Counter(map(values, found)) == Counter(map(values, by_sql))


def values(row: dict[str, object]) -> tuple[str, ...]:
    """The values of a row in an order that names and places of columns do not change."""
    return tuple(sorted(map(str, row.values())))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM t",
        "SELECT k FROM t GROUP BY k",
        "SELECT count(*) AS n FROM t GROUP BY k",
        "SELECT k, sum(v) / count(*) AS mean FROM t GROUP BY k",
        "SELECT k, sum(v) AS v, count(*) AS v FROM t GROUP BY k",
        "SELECT k, sum(v) AS `+` FROM t GROUP BY k",
        "SELECT k, v, count(*) AS n FROM t GROUP BY CUBE (k, v)",
        "SELECT window(timestamp_seconds(v), '1 hour') AS w, count(*) AS n FROM t GROUP BY 1",
        "SELECT session_window(timestamp_seconds(v), '1 hour') AS w, count(*) AS n FROM t GROUP BY 1",
    ],
)
def test_what_takes_more_than_a_keyed_step_is_not_written_as_one(spark: SparkSession, sql: str) -> None:
    assert step_of(spark, sql) == ""
