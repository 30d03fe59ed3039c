"""A GROUP BY in a sql step becomes a sql step, a keyed step and a sql step, which return the rows of Spark's batch."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import read_query
from mixedmode.analysis.distinct_sql import distinct_sql
from mixedmode.analysis.grouped_sql import GroupedSql, grouped_sql
from mixedmode.analysis.written_sql import free_name
from mixedmode.config import KeyedAggregateStep, SqlStep
from mixedmode.errors import InvalidJobError
from mixedmode.spark.frames import stand_in_of
from mixedmode.spark.temporary_views import views
from tests.analysis.grouped_rows import DDL

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return stand_in_of(spark, spark.createDataFrame([], DDL).schema)


def steps_of(spark: SparkSession, stream: DataFrame, sql: str) -> GroupedSql | None:
    """The steps that a text means, as a sql step over a source named t."""
    with views(spark, {"t": stream}):
        query = read_query(spark, sql, inputs=["t"])
        where, step = "steps[0].sql", SqlStep(sql=sql)
        return grouped_sql(spark, query, step, name="totals", where=where) or distinct_sql(
            spark, query, step, name="totals", where=where
        )


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
            "SELECT count(DISTINCT v) AS n FROM t GROUP BY `odd name` HAVING `odd name` = 1",
            "SELECT t.`odd name` AS odd_name, t.v FROM t",
            {"key-by": ["odd_name"], "aggregate": {"n": "count(distinct v)"}},
            "SELECT n FROM previous WHERE (odd_name = 1)",
        ),
        (
            "SELECT k FROM t GROUP BY k, window(at, '1 hour')",
            "SELECT t.k, t.at FROM t",
            {"key-by": ["k"], "window": {"tumbling": "1h"}, "aggregate": {"count": "count(*)"}},
            (
                "SELECT k FROM (SELECT *, named_struct('start', `window_start`, 'end', `window_end`) AS `window` FROM "
                "previous)"
            ),
        ),
        (
            "SELECT s, window.end AS until, percentile(v, 0.5) AS p FROM t GROUP BY s, window(at, '1 hour')",
            "SELECT t.s, t.at, t.v FROM t",
            {"key-by": ["s"], "window": {"tumbling": "1h"}, "aggregate": {"p": "percentile(v, 0.5)"}},
            (
                "SELECT s, window.`end` AS until, p FROM (SELECT *, named_struct('start', `window_start`, 'end', "
                "`window_end`) AS `window` FROM previous)"
            ),
        ),
        (
            (
                "SELECT k, percentile_cont(0.9) WITHIN GROUP (ORDER BY v DESC) FILTER (WHERE v > 0) AS p, "
                "percentile(v, 1) AS m FROM t GROUP BY k"
            ),
            "SELECT t.k, t.v FROM t",
            {
                "key-by": ["k"],
                "aggregate": {
                    "p": "percentile(v, 0.1) filter (where (v > CAST(0 AS BIGINT)))",
                    "m": "percentile(v, 1.0)",
                },
            },
            None,
        ),
        (
            (
                "SELECT k, mode(v) AS a, mode(v, true) AS b, mode() WITHIN GROUP (ORDER BY v) AS c, "
                "mode() WITHIN GROUP (ORDER BY v DESC) AS d FROM t GROUP BY k"
            ),
            "SELECT t.k, t.v FROM t",
            {
                "key-by": ["k"],
                "aggregate": {"a": "mode(v)", "b": "mode(v)", "d": "mode() within group (order by v desc)"},
            },
            "SELECT k, a, b, b AS c, d FROM previous",
        ),
        (
            "SELECT s, k FROM t GROUP BY k, s",
            "SELECT t.k, t.s FROM t",
            {"key-by": ["k", "s"]},
            "SELECT s, k FROM previous",
        ),
        (
            "SELECT k, sum(v) AS total FROM t WHERE v > 0 GROUP BY ROLLUP(k)",
            (
                "SELECT `k`, `grouping_id`, `v` FROM (\nSELECT t.k AS of_k, t.v FROM t WHERE v > 0\n) LATERAL VIEW "
                "inline(array(named_struct('k', of_k, 'grouping_id', 0L), named_struct('k', CAST(NULL AS STRING), "
                "'grouping_id', 1L))) sets AS `k`, `grouping_id`"
            ),
            {"key-by": ["k", "grouping_id"], "aggregate": {"total": "sum(v)"}},
            "SELECT k, total FROM previous",
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
        ("SELECT k, first_value(v) AS f FROM t GROUP BY k", "Take min_by or max_by with the column"),
        ("SELECT k, listagg(s, ', ') AS l FROM t GROUP BY k", r"write array_join\(slice\(collect_list\(x\), 1, 100\)"),
        ("SELECT k, try_sum(v) AS f FROM t GROUP BY k", r"write sum\(x\)\."),
        ("SELECT k, histogram_numeric(v, 3) AS f FROM t GROUP BY k", "docs/aggregates.md lists the functions"),
        ("SELECT k, collect_list(v) AS l FROM t GROUP BY k", "Say how many are kept"),
        ("SELECT k, count(DISTINCT v, s) AS n FROM t GROUP BY k", "a GROUP BY runs as a keyed step, in which count"),
        ("SELECT k, transform(array(count(*)), x -> x + 1) AS l FROM t GROUP BY k", "cannot be written out"),
        ("SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > (SELECT 1)", "cannot be written out"),
        ("SELECT count(*) AS n FROM t GROUP BY named_struct('a', k)", "Group by its fields"),
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
        "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n",
        "SELECT k, count(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t",
        "SELECT DISTINCT k FROM t LIMIT 3",
        "WITH g AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT * FROM g",
    ],
)
def test_more_than_a_group_by_is_left_to_the_checks_of_sql(spark: SparkSession, stream: DataFrame, sql: str) -> None:
    assert steps_of(spark, stream, sql) is None


def test_a_name_made_of_a_text_has_nothing_of_what_spark_calls_a_query_without_a_name() -> None:
    assert free_name("__auto_generated_subquery_name.w.start", set()) == "w_start"
    assert free_name("__auto_generated_subquery_name.w.start", {"w_start"}) == "w_start_2"
