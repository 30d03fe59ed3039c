"""A GROUP BY in a sql step becomes a sql step, a keyed step and a sql step, which return the rows of Spark's batch."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import read_query
from mixedmode.analysis.grouped_sql import GroupedSql, grouped_sql
from mixedmode.config import KeyedAggregateStep, SqlStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Source
from mixedmode.spark.frames import stand_in_of, views
from mixedmode.testing import run_graph

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, w decimal(8,2), s string, `odd name` int, at timestamp"
START = datetime(2024, 1, 1, tzinfo=UTC)


def records(count: int) -> list[dict[str, Any]]:
    """Records with NULLs, without fractions that depend on the order of a sum."""
    chosen = random.Random(count)
    return [
        {
            "k": chosen.choice(["a", "b", "it's", None]),
            "v": chosen.choice([1, 2, 3, -4, None]),
            "w": chosen.choice([None, 1, 250]),
            "s": chosen.choice(["x", "y", "a`b"]),
            "odd name": chosen.choice([0, 1]),
            "at": START + timedelta(minutes=chosen.randrange(600)),
        }
        for _ in range(count)
    ]


ROWS = [{**row, "w": None if row["w"] is None else f"{row['w']}.50"} for row in records(120)]


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return stand_in_of(spark, spark.createDataFrame([], DDL).schema)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[DataFrame]:
    text = DDL.replace("w decimal(8,2)", "w string")
    frame = spark.createDataFrame(ROWS, text).selectExpr(
        "k", "v", "CAST(w AS decimal(8,2)) AS w", "s", "`odd name`", "at"
    )
    frame = frame.cache()
    frame.count()
    yield frame
    frame.unpersist()


def steps_of(spark: SparkSession, stream: DataFrame, sql: str) -> GroupedSql | None:
    """The steps that a text means, as a sql step over a source named t."""
    with views(spark, {"t": stream}):
        query = read_query(spark, sql, inputs=["t"])
        return grouped_sql(spark, query, SqlStep(sql=sql), name="totals", where="steps[0].sql")


def rows_by_steps(spark: SparkSession, table: DataFrame, steps: GroupedSql) -> list[tuple[Any, ...]]:
    """The rows of the three steps, one after the other, computed by Spark."""
    with views(spark, {"t": table}):
        given = spark.sql(steps.before.sql)
    keys = [f"`{key}`" for key in steps.step.key_by]
    if not isinstance(steps.step, KeyedAggregateStep):
        found = given.distinct()
    else:
        calls = [f"{call} AS `{name}`" for name, call in steps.step.aggregate.items()]
        assert steps.step.window is None
        with views(spark, {"given": given}):
            found = spark.sql(f"SELECT {', '.join([*keys, *calls])} FROM given GROUP BY {', '.join(keys)}")
    if steps.after is not None:
        with views(spark, {"previous": found}):
            found = spark.sql(steps.after.sql)
    return [tuple(row) for row in found.collect()]


@pytest.mark.parametrize(
    ("sql", "before", "step", "after"),
    [
        (
            "SELECT k, count(*) AS n FROM t WHERE v > 0 GROUP BY k",
            "SELECT t.k FROM t WHERE v > 0",
            {"key-by": ["k"], "aggregate": {"n": "count(*)"}},
            None,
        ),
        (
            "SELECT sum(v), k FROM t GROUP BY ALL",
            "SELECT t.k, t.v FROM t",
            {"key-by": ["k"], "aggregate": {"sum_v": "sum(v)"}},
            "SELECT sum_v AS `sum(v)`, k FROM previous",
        ),
        (
            "SELECT upper(x.k) AS u, max(x.v) FILTER (WHERE x.v > 1) AS m FROM t AS x GROUP BY 1",
            "SELECT upper(x.k) AS u, x.v FROM t AS x",
            {"key-by": ["u"], "aggregate": {"m": "max(v) filter (where (v > CAST(1 AS BIGINT)))"}},
            None,
        ),
        (
            "SELECT date(at) AS at, sum(v) / count(*) AS mean, max(at) newest FROM t GROUP BY date(at) HAVING mean > 1",
            "SELECT CAST(t.at AS DATE) AS at, t.v, t.at AS at_2 FROM t",
            {"key-by": ["at"], "aggregate": {"sum_v": "sum(v)", "count_1": "count(*)", "newest": "max(at_2)"}},
            (
                "SELECT at, (CAST(sum_v AS DOUBLE) / CAST(count_1 AS DOUBLE)) AS mean, newest FROM previous WHERE "
                "((CAST(sum_v AS DOUBLE) / CAST(count_1 AS DOUBLE)) > CAST(1 AS DOUBLE))"
            ),
        ),
        (
            "SELECT n FROM (SELECT `odd name` o, count(DISTINCT v) AS n FROM t GROUP BY `odd name`) AS x WHERE o = 1",
            "SELECT t.`odd name` AS odd_name, t.v FROM t",
            {"key-by": ["odd_name"], "aggregate": {"n": "count(distinct v)"}},
            "SELECT n FROM previous WHERE (odd_name = 1)",
        ),
        (
            "SELECT s, window.end AS until, percentile(v, 0.5) AS p FROM t GROUP BY s, window(at, '1 hour')",
            "SELECT t.s, t.at, t.v FROM t",
            {"key-by": ["s"], "window": {"tumbling": "1h"}, "aggregate": {"p": "percentile(v, 0.5)"}},
            (
                "SELECT s, window.`end` AS until, p FROM (SELECT *, named_struct('start', window_start, 'end', "
                "window_end) AS window FROM previous)"
            ),
        ),
        (
            "SELECT s, k FROM t GROUP BY k, s",
            "SELECT t.k, t.s FROM t",
            {"key-by": ["k", "s"]},
            "SELECT s, k FROM previous",
        ),
        (
            "SELECT DISTINCT k, v + 1 AS more FROM t",
            "SELECT k, v + 1 AS more FROM t",
            {"key-by": ["k", "more"]},
            None,
        ),
    ],
)
def test_the_steps_of_a_text(
    spark: SparkSession, stream: DataFrame, sql: str, before: str, step: Mapping[str, Any], after: str | None
) -> None:
    found = steps_of(spark, stream, sql)
    assert found is not None
    assert found.before.sql == before
    own = found.step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert own.pop("name") == "totals"
    deduplicate = {} if "aggregate" in step else {"deduplicate": {"keep": "any"}}
    assert own == {**step, **deduplicate}
    assert (None if found.after is None else found.after.sql) == after


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("window(at, '1 day', '6 hours')", {"sliding": {"size": "1d", "slide": "6h"}}),
        ("window(at, '10 minutes', '10 minutes', '90 seconds')", {"tumbling": {"size": "10m", "offset": "1m30s"}}),
        ("session_window(at, '30 minutes')", {"session": "30m"}),
        ("WINDOW(t.at, '2 hours 30 minutes')", {"tumbling": "2h30m"}),
    ],
)
def test_windows_are_those_of_the_step(
    spark: SparkSession, stream: DataFrame, call: str, window: Mapping[str, Any]
) -> None:
    found = steps_of(spark, stream, f"SELECT count(*) AS n, {call} AS w FROM t GROUP BY 2")
    assert found is not None
    assert isinstance(found.step, KeyedAggregateStep)
    assert found.step.window is not None
    assert found.step.window.model_dump(mode="json", by_alias=True, exclude_defaults=True) == window
    assert (found.time, found.types["w"]) == ("at", "struct<start:timestamp,end:timestamp>")


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT k, first(v) AS f FROM t GROUP BY k", "first goes by the order of rows here"),
        ("SELECT DISTINCT k, v AS K FROM t", "Give each a name of its own with AS. found='k', 'K'"),
        ("SELECT DISTINCT 'a\\nb', k FROM t", "Give each a name of its own with AS"),
        ("SELECT k, any_value(v) AS f FROM t GROUP BY k", "a GROUP BY runs as a keyed step, in which there is no"),
        ("SELECT k, collect_list(v) AS l FROM t GROUP BY k", "collect_list needs how many values to keep at most"),
        ("SELECT k, count(DISTINCT v, s) AS n FROM t GROUP BY k", "a GROUP BY runs as a keyed step, in which count"),
        ("SELECT k, transform(array(count(*)), x -> x + 1) AS l FROM t GROUP BY k", "cannot be written out"),
        ("SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > (SELECT 1)", "cannot be written out"),
        ("SELECT count(*) AS n FROM t GROUP BY window(date(at), '1 day')", "cannot be written out"),
        ("SELECT count(*) AS n FROM t GROUP BY window(at, '500 microseconds')", "windows last whole milliseconds"),
        (
            "SELECT count(*) AS n FROM t GROUP BY session_window(at, if(v > 1, '1 hour', '2 hours'))",
            "cannot be written out",
        ),
    ],
)
def test_what_a_keyed_step_does_not_have_is_refused(
    spark: SparkSession, stream: DataFrame, sql: str, problem: str
) -> None:
    with pytest.raises(InvalidJobError, match=problem) as raised:
        steps_of(spark, stream, sql)
    assert str(raised.value).startswith("steps[0].sql: ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM t",
        "SELECT k, v, count(*) AS n FROM t GROUP BY CUBE (k, v)",
        "SELECT sum(n) AS n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY k",
        "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n",
        "SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t",
        "SELECT DISTINCT k FROM t LIMIT 3",
        "WITH g AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT * FROM g",
    ],
)
def test_more_than_one_group_by_is_left_to_the_checks_of_sql(spark: SparkSession, stream: DataFrame, sql: str) -> None:
    assert steps_of(spark, stream, sql) is None


KEYS = st.sampled_from(
    [
        "k",
        "x.s",
        "upper(k)",
        "(v % 2 = 1)",
        "date(at)",
        "at - INTERVAL '1' DAY",
        "left(k, 1)",
        "`odd name`",
        "coalesce(k, s) || '-'",
        "CASE WHEN v > 1 THEN 1 END",
    ]
)
CALLS = st.sampled_from(
    [
        "count(*)",
        "sum(v)",
        "sum(w)",
        "min(k)",
        "max(at)",
        "avg(v)",
        "count(DISTINCT s)",
        "max_by(s, v * 100 + hour(at))",
        "sum(v * `odd name`) FILTER (WHERE x.s <> 'y')",
        "bool_or(v > 2)",
        "count_if(v IS NULL)",
        "sum(nvl(v, 0))",
        "min(if(v > 1, 'it''s \\\\ a `b`', k))",
    ]
)
SHAPES = st.sampled_from(
    [
        "{0}",
        "{0} IS NULL",
        "coalesce(string({0}), 'none')",
        "if({0} = {1}, {0}, {1})",
        "hash({0}, {1})",
        "nvl({0}, {1})",
        "ifnull({0}, {1})",
    ]
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    keys = draw(st.lists(KEYS, min_size=1, max_size=3, unique=True))
    items = list[str]()
    for number in range(draw(st.integers(1, 4))):
        first = draw(st.one_of(CALLS, st.sampled_from(keys)))
        items.append(f"{draw(SHAPES).format(first, first)} AS c{number}")
    if draw(st.booleans()):
        items += keys
    where = draw(
        st.sampled_from(["", " WHERE v > 1", " WHERE s IN ('x', 'y') OR k IS NULL", " WHERE NOT v = 2 AND true"])
    )
    having = draw(st.sampled_from(["", " HAVING count(*) > 2", " HAVING max(v) IS NOT NULL", " HAVING sum(v) <> 1"]))
    source = draw(st.sampled_from(["t AS x", "(SELECT * FROM t WHERE at IS NOT NULL) x"]))
    sql = f"SELECT {', '.join(items)} FROM {source}{where} GROUP BY {', '.join(keys)}{having}"
    if draw(st.booleans()):
        sql = f"SELECT c0, c0 IS NULL AS is_none FROM ({sql}) WHERE c0 IS NOT NULL"
    return sql


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=queries())
def test_the_steps_return_the_rows_of_the_text(
    spark: SparkSession, stream: DataFrame, table: DataFrame, sql: str
) -> None:
    steps = steps_of(spark, stream, sql)
    assert steps is not None
    with views(spark, {"t": table}):
        expected = spark.sql(sql).collect()
    assert Counter(rows_by_steps(spark, table, steps)) == Counter(tuple(row) for row in expected)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s, date(at) AS day, sum(v) / count(*) AS mean FROM t WHERE v > -9 GROUP BY 1, 2 HAVING sum(v) > 3",
        "SELECT s, count(*) AS n, window.start AS since FROM t GROUP BY window(at, '2 hours', '1 hour'), s",
        "SELECT session_window AS w, k FROM t GROUP BY session_window(at, '15 minutes'), k",
        "SELECT DISTINCT k, `odd name` AS o FROM t",
    ],
)
def test_all_modes_return_the_rows_of_sparks_batch(spark: SparkSession, table: DataFrame, sql: str) -> None:
    job = Job("grouped", sources={"t": Source.parquet("in", schema=DDL, event_time="at")}, mode="batch")
    rows = [row.asDict() for row in table.orderBy("at").collect()]
    with views(spark, {"t": table}):
        expected = Counter(shown(row.asDict(recursive=True)) for row in spark.sql(sql).collect())
    parts = [{"t": rows[:50]}, {"t": rows[50:90]}, {"t": rows[90:]}]
    found = [
        run_graph(job.sql(sql), {"t": rows}),
        run_graph(job.sql(sql), parts[0], live=parts[1:]),
        run_graph(job.sql(sql), live=parts),
    ]
    for outputs in found:
        assert Counter(map(shown, outputs.table())) == expected


def shown(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of a row; the zone of a time does not count."""
    return tuple(str(plain(value)) for name, value in row.items() if not name.startswith("_"))


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
