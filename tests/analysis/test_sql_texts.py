"""A sql step with a GROUP BY inside another one becomes several texts, which return the rows of Spark's batch."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config import TopStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.interface import Changelog
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph
from tests.analysis.batch_steps import BatchSteps
from tests.analysis.grouped_rows import DDL, cached_table, shown

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[DataFrame]:
    with cached_table(spark) as frame:
        yield frame


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
        "sum(DISTINCT w)",
        "avg(DISTINCT v) FILTER (WHERE s = 'x')",
        "max_by(s, v * 100 + hour(at))",
        "sum(v * `odd name`) FILTER (WHERE x.s <> 'y')",
        "bool_or(v > 2)",
        "count_if(v IS NULL)",
        "sum(nvl(v, 0))",
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY v DESC)",
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
#: texts around a GROUP BY whose first column is c0
AROUND = [
    "{0}",
    "SELECT count(*) AS n, min(c0) AS least FROM ({0})",
    "SELECT c0, c0 IS NULL AS is_none FROM ({0}) WHERE c0 IS NOT NULL",
    "SELECT count(*) AS n, c0 FROM ({0}) AS g GROUP BY c0 HAVING n > 1 OR c0 IS NULL",
    "WITH g AS ({0}), h AS (SELECT c0 IS NULL AS x, count(*) AS n FROM g GROUP BY 1) SELECT max(n) FROM h GROUP BY x",
    "WITH g AS ({0}) SELECT c0, 'g' AS x FROM g UNION ALL SELECT * FROM (SELECT DISTINCT c0, 'd' FROM g)",
    "SELECT DISTINCT count(*) AS n FROM ({0}) GROUP BY c0",
    "SELECT u, count(c0) FROM (SELECT DISTINCT c0 FROM ({0})) LATERAL VIEW explode(array('x', 'y')) AS u GROUP BY u",
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    items = list[str]()
    for number in range(draw(st.integers(1, 4))):
        first = draw(st.one_of(CALLS, st.sampled_from(keys)) if keys else CALLS)
        items.append(f"{draw(SHAPES).format(first, first)} AS c{number}")
    if draw(st.booleans()):
        items += keys
    where = draw(
        st.sampled_from(["", " WHERE v > 1", " WHERE s IN ('x', 'y') OR k IS NULL", " WHERE NOT v = 2 AND true"])
    )
    having = draw(st.sampled_from(["", " HAVING count(*) > 2", " HAVING max(v) IS NOT NULL", " HAVING sum(v) <> 1"]))
    source = draw(st.sampled_from(["t AS x", "(SELECT * FROM t WHERE at IS NOT NULL) x"]))
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    sql = f"SELECT {', '.join(items)} FROM {source}{where}{group}{having}"
    return draw(st.sampled_from(AROUND)).format(sql)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=queries())
def test_the_steps_return_the_rows_of_the_text(spark: SparkSession, table: DataFrame, sql: str) -> None:
    with views(spark, {"t": table}):
        expected = spark.sql(sql).collect()
    assert Counter(BatchSteps(spark, {"t": table}).rows(sql)) == Counter(tuple(row) for row in expected)


#: an order of all rows of t, so that Spark has one answer
ALL = "v, w DESC, at, s, k, `odd name`"
RANKED = f"SELECT *, row_number() OVER (PARTITION BY k ORDER BY {ALL}) AS n FROM t"
HOURS = "SELECT window(at, '1 hour') AS w, k, count(*) AS n FROM t GROUP BY window(at, '1 hour'), k"
OTHER = f"row_number() OVER (PARTITION BY upper(k), s ORDER BY v % 2 DESC NULLS FIRST, {ALL})"


def skip_unknown(spark: SparkSession, sql: str) -> None:
    """Skip a test whose text has what this Spark does not parse."""
    if "QUALIFY" not in sql:
        return
    try:
        spark.sql("SELECT a FROM VALUES (1) AS x(a) QUALIFY row_number() OVER (PARTITION BY a ORDER BY a) = 1")
    except ParseException:
        pytest.skip("this Spark has no QUALIFY")


@pytest.mark.parametrize(
    ("sql", "n"),
    [
        (f"SELECT k, v, s FROM ({RANKED}) WHERE n = 1", 1),
        (f"SELECT * FROM ({RANKED}) AS x WHERE x.n <= 3 AND v > 1", 3),
        (f"SELECT k, at FROM ({RANKED}) WHERE 4 > n", 3),
        (f"SELECT k, at, n FROM ({RANKED}) WHERE n BETWEEN 2 AND 4", 4),
        (f"SELECT k, at, n FROM ({RANKED}) WHERE n IN (1, 5) AND n > 1", 5),
        (f"SELECT k, at FROM ({RANKED}) WHERE n < 1", 1),
        (f"SELECT a, s FROM (SELECT n AS a, s FROM ({RANKED})) WHERE a <= 2", 2),
        (f"WITH r AS ({RANKED}) SELECT k, n FROM r WHERE n = 2 UNION ALL SELECT s, n FROM r WHERE n = 1", 2),
        (f"SELECT s, avg(v) AS mean FROM ({RANKED}) WHERE n <= 2 GROUP BY s", 2),
        (f"SELECT rank, n, s FROM (SELECT v AS rank, {OTHER} AS n, s FROM t WHERE v IS NOT NULL) WHERE n <= 2", 2),
        (
            (
                "SELECT c, n FROM (SELECT c, row_number() OVER (PARTITION BY m ORDER BY c, k DESC) AS n FROM "
                "(SELECT k, count(*) AS c, max(v) AS m FROM t GROUP BY k)) WHERE n <= 2"
            ),
            2,
        ),
        # constants order nothing; if there is nothing else, any row may be the first one
        (
            (
                "SELECT k, v, s FROM (SELECT *, row_number() OVER (PARTITION BY k, 'x' ORDER BY 3 DESC, "
                f"{ALL}, 1 + 1) AS n FROM t) WHERE n = 1"
            ),
            1,
        ),
        (
            (
                "SELECT k, count(*) AS c FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY NULL) AS n FROM t) "
                "WHERE n <= 2 GROUP BY k"
            ),
            2,
        ),
        (f"SELECT k, v FROM t WHERE v > 0 QUALIFY {OTHER} <= 2", 2),
        (f"SELECT * FROM ({RANKED.replace('PARTITION BY k ', '')}) WHERE n <= 3 AND n > 1", 3),
        ("SELECT k, s, count(*) AS c FROM t GROUP BY k, s ORDER BY count(*) DESC, 1, s DESC LIMIT 3", 3),
        (
            (
                "WITH b AS (SELECT k, max(v) AS m FROM t GROUP BY k ORDER BY m NULLS LAST, k LIMIT 2) SELECT m, k "
                "FROM b UNION ALL SELECT v, k FROM t WHERE v > 2"
            ),
            2,
        ),
        (f"SELECT s, count(*) AS c FROM (SELECT s, {OTHER} AS n FROM t QUALIFY n = 2) GROUP BY s", 2),
    ],
)
def test_a_row_number_is_the_rank_of_a_step_with_top(spark: SparkSession, table: DataFrame, sql: str, n: int) -> None:
    skip_unknown(spark, sql)
    steps = BatchSteps(spark, {"t": table})
    with views(spark, {"t": table}):
        expected = spark.sql(sql).collect()
    assert Counter(steps.rows(sql)) == Counter(tuple(row) for row in expected)
    assert [step.top.n for step in steps.steps.values() if isinstance(step, TopStep)] == [n]


BY_K = f"row_number() OVER (PARTITION BY k ORDER BY k || 'x', {ALL}) AS n"


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        (f"SELECT m, n, s FROM (SELECT k AS m, s, {BY_K} FROM t) WHERE n <= 2", ["m"]),
        (f"SELECT a, b, n FROM (SELECT k AS a, k AS b, {BY_K} FROM t WHERE k <> 'b') WHERE n <= 2 AND a > 'a'", ["a"]),
        (f"SELECT k, m, n FROM (SELECT k, k AS m, {BY_K} FROM t) WHERE n <= 2", ["k"]),
        (f"SELECT u, s, n FROM (SELECT upper(k) AS u, k, s, {OTHER} AS n FROM t) WHERE n <= 2", ["u", "s"]),
        (f"SELECT m, n FROM (SELECT k AS m, {BY_K} FROM t QUALIFY k > 'a' AND n <= 2)", ["m"]),
    ],
)
def test_a_key_of_a_row_number_has_the_name_that_the_query_gives_it(
    spark: SparkSession, table: DataFrame, sql: str, keys: list[str]
) -> None:
    """Otherwise the rows had no key, and an output could not find a row again."""
    skip_unknown(spark, sql)
    steps = BatchSteps(spark, {"t": table})
    with views(spark, {"t": table}):
        expected = spark.sql(sql).collect()
    assert Counter(steps.rows(sql)) == Counter(tuple(row) for row in expected)
    assert [list(step.key_by) for step in steps.steps.values() if isinstance(step, TopStep)] == [keys]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) > 1", "Say how many rows are kept"),
        (RANKED, "Say how many rows are kept"),
        (f"SELECT * FROM ({RANKED}) WHERE n > 3", "Say how many rows are kept"),
        (f"SELECT * FROM ({RANKED}) WHERE n <= v", "Say how many rows are kept"),
        (f"SELECT * FROM ({RANKED}) WHERE n <= 3 OR v = 1", "Say how many rows are kept"),
        (f"WITH r AS ({RANKED}) SELECT * FROM r WHERE n = 1 UNION ALL SELECT * FROM r", "Say how many rows are kept"),
        (f"SELECT * FROM ({RANKED.replace('row_number', 'rank')}) WHERE n = 1", "OVER goes by the event time"),
        (
            (
                "SELECT k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM "
                "(SELECT k, v, make_dt_interval(v) AS far FROM t)) WHERE n = 1"
            ),
            "and cannot store this type",
        ),
        (f"SELECT v FROM ({RANKED}) WHERE n <= 2", "select that of ROW_NUMBER; .* missing=k, rank"),
        ("SELECT k, v FROM t ORDER BY v LIMIT 2", "in place of a LIMIT, write ROW_NUMBER"),
        ("SELECT k FROM t ORDER BY v LIMIT 2", "over columns of the SELECT"),
        ("SELECT k, v FROM t ORDER BY v + 1 LIMIT 2", "over columns of the SELECT"),
        ("SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c LIMIT 2 OFFSET 1", "found=GlobalLimit"),
        ("SELECT k, count(*) AS c FROM t GROUP BY k LIMIT 2", "ORDER BY before LIMIT"),
    ],
)
def test_a_row_number_that_top_does_not_have_is_refused(spark: SparkSession, sql: str, problem: str) -> None:
    skip_unknown(spark, sql)
    job = Job("refused", sources={"t": Source.parquet("in", schema=DDL, event_time="at")}, mode="batch")
    with pytest.raises(InvalidJobError, match=problem) as raised:
        run_graph(job.sql(sql), {"t": []})
    assert str(raised.value).startswith("steps[0].sql: ")


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT k FROM t GROUP BY k", ["sql-1"]),
        ("SELECT n FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", ["sql-1"]),
        ("SELECT DISTINCT n FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", ["sql-1-1", "sql-1"]),
        ("SELECT DISTINCT count(*) AS n FROM t GROUP BY k", ["sql-1-input", "sql-1"]),
        (
            (
                "WITH a AS (SELECT k, v FROM t GROUP BY 1, 2), b AS (SELECT k, sum(v) AS v FROM a GROUP BY k) "
                "SELECT * FROM a UNION ALL SELECT * FROM b"
            ),
            ["sql-1-1", "sql-1"],
        ),
        ("SELECT k, m FROM (SELECT k FROM t GROUP BY k), (SELECT max(a) AS m FROM VALUES (1) AS x(a) GROUP BY a)", []),
    ],
)
def test_the_state_of_a_text_has_the_name_of_the_step(
    spark: SparkSession, table: DataFrame, sql: str, names: list[str]
) -> None:
    steps = BatchSteps(spark, {"t": table})
    if names:
        steps.rows(sql)
        assert [*steps.steps] == names
    else:
        with pytest.raises((InvalidJobError, AssertionError)):
            steps.rows(sql)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT window_time(window) AS a FROM {}", "read the fields of the column, such as w.end"),
        (
            "SELECT count(*) AS n FROM {} GROUP BY window(last, '2 hours')",
            "Results of windows have these windows: write",
        ),
        ("SELECT p, max(v) AS m FROM (SELECT struct(v) AS p, v FROM t) GROUP BY p", "Group by its fields, as in GROUP"),
        (
            (
                "SELECT count(*) AS n FROM (SELECT window FROM {} UNION ALL SELECT struct(at AS start, at AS end) "
                "FROM t) GROUP BY window(window, '2 hours')"
            ),
            "not a correct window column",
        ),
        (
            "SELECT count(*) AS n FROM (SELECT nullif(window, NULL) AS w FROM {}) GROUP BY window(w, '2 hours')",
            "not a correct window column",
        ),
        ("SELECT * FROM t WHERE v > (SELECT max(n) FROM {})", "A subquery over an input is a condition of the WHERE"),
        (
            "SELECT * FROM (SELECT a.k AS x, b.k AS y FROM {} a JOIN t b ON a.k = b.k) UNPIVOT (v FOR c IN (x, y))",
            "Put the join into a sql step",
        ),
        (
            "SELECT max(a.at) AS m FROM {} b JOIN t a ON a.k = b.k GROUP BY window(b.last, '1 hour')",
            "windows go by event",
        ),
        (
            "SELECT max(at) AS m FROM (SELECT *, at + INTERVAL 1 HOUR AS u FROM t) GROUP BY window(u, '1 hour')",
            "this one",
        ),
        ("SELECT no FROM {} GROUP BY no", "no"),
        ("SELECT 1 FROM t GROUP BY date(window(at, '1 hour').end)", "a window is a key as it is, or by its start or"),
        ("SELECT 1 FROM t GROUP BY session_window(at, '1 hour').end", "a window is a key as it is, or by its start or"),
        ("SELECT k FROM {} GROUP BY k ORDER BY k", "Sort the rows where the output is read"),
        ("SELECT k, first(n) AS f FROM {} GROUP BY k", "first goes by the order of rows here"),
        *(
            (f"SELECT k, {call} AS l FROM {{}} GROUP BY k", r"Say how many are kept: slice\(collect_")
            for call in (
                "collect_list(n)",
                "size(collect_set(n))",
                "slice(collect_list(n), -2, 2)",
                "slice(collect_list(n), 1, max(n))",
                "slice(sort_array(collect_list(n)), 1, 2)",
                "slice(sort_array(collect_set(n), false), 1, 2)",
                "array_append(slice(collect_set(n), 1, 2), element_at(collect_set(n), 1))",
            )
        ),
    ],
)
def test_what_is_around_a_group_by_and_not_a_step_is_refused(spark: SparkSession, sql: str, problem: str) -> None:
    inner = "(SELECT k, window, count(*) AS n, max(at) AS last FROM t GROUP BY k, window(at, '1 hour'))"
    job = Job("refused", sources={"t": Source.parquet("in", schema=DDL, event_time="at")}, mode="batch")
    with pytest.raises(InvalidJobError, match=problem) as raised:
        run_graph(job.sql(sql.format(inner)), {"t": []})
    assert str(raised.value).startswith("steps[0].sql: ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s, date(at) AS day, sum(v) / count(*) AS mean FROM t WHERE v > -9 GROUP BY 1, 2 HAVING sum(v) > 3",
        "SELECT s, count(*) AS n, window.start AS since FROM t GROUP BY window(at, '2 hours', '1 hour'), s",
        "SELECT session_window AS w, k FROM t GROUP BY session_window(at, '15 minutes'), k",
        (
            "SELECT window(at, '2 hours', '1 hour').end AS e, sum(v) AS v FROM t GROUP BY "
            "window(at, '2 hours', '1 hour').end HAVING count(*) > 1"
        ),
        "SELECT DISTINCT k, `odd name` AS o FROM t",
        (
            "SELECT from_json(concat('[', v, ']'), 'array<string>')[0] AS a, min(from_csv(concat(v, ';', k), 'n int, k "
            "string', map('sep', ';')).n) AS n FROM t GROUP BY 1"
        ),
        "SELECT day, avg(n) AS mean FROM (SELECT k, date(at) AS day, count(*) AS n FROM t GROUP BY ALL) GROUP BY day",
        (
            "WITH best AS (SELECT k, s, max(v) AS most FROM t GROUP BY k, s), means AS (SELECT k, avg(most) AS mean, "
            "count(*) AS n FROM best WHERE most > 1 GROUP BY k) SELECT n, count(mean) AS keys FROM means GROUP BY n"
        ),
        (
            "SELECT window.start AS since, window.end AS until, max(n) AS most FROM (SELECT s, window, count(*) AS n "
            "FROM t GROUP BY s, window(at, '2 hours')) GROUP BY window.start, window.end"
        ),
        f"SELECT window(w, '3 hours') AS x, k, sum(n) AS n FROM ({HOURS}) GROUP BY window(w, '3 hours'), k",
        (
            "SELECT k, session_window(window_time(x.w), '2 hours').start AS s, max(window_time(w)) AS l FROM "
            f"(SELECT k, w FROM ({HOURS}) WHERE n > 1) x GROUP BY session_window(window_time(x.w), '2 hours'), k"
        ),
        (
            "SELECT w.end, m FROM (SELECT window(v, '1 day') AS w, max(n) AS m FROM (SELECT window(w, '2 hours') AS v, "
            f"count(*) AS n FROM ({HOURS}) GROUP BY window(w, '2 hours')) GROUP BY window(v, '1 day'))"
        ),
        f"SELECT max(n) AS most, w FROM ({HOURS}) GROUP BY w HAVING min(w.start) IS NOT NULL",
        f"SELECT window(w, '3 hours').end AS e, w, count(*) AS n FROM ({HOURS}) GROUP BY window(w, '3 hours'), w",
        f"SELECT DISTINCT n, w FROM ({HOURS}) -- of an hour",
        (
            f"SELECT window(v, '1 day').end AS e, count(*) AS n FROM (SELECT DISTINCT w AS v FROM ({HOURS})) "
            "GROUP BY window(v, '1 day')"
        ),
        (
            "SELECT w, k, n FROM (SELECT *, row_number() OVER (PARTITION BY w ORDER BY n DESC, k) AS place FROM "
            f"({HOURS})) WHERE place <= 2"
        ),
        (
            "SELECT k, w.end AS until FROM (SELECT k, w, row_number() OVER (PARTITION BY k ORDER BY w DESC) AS place "
            f"FROM ({HOURS})) WHERE place = 1"
        ),
        (
            "SELECT p, o, n, place FROM (SELECT w AS p, k AS o, n, row_number() OVER (PARTITION BY w ORDER BY n DESC, "
            f"k) AS place FROM ({HOURS})) WHERE place <= 2"
        ),
        (
            "SELECT o, v, place FROM (SELECT k AS o, v, row_number() OVER (PARTITION BY k ORDER BY "
            f"{ALL}) AS place FROM t) WHERE place <= 2"
        ),
        (
            f"SELECT day, max(m) AS m FROM (SELECT date(w.start) AS day, w, max(n) AS m FROM ({HOURS}) GROUP BY w, 1) "
            "GROUP BY day"
        ),
        "SELECT count(*) AS n, s, avg(v) AS mean, k FROM t GROUP BY k, s HAVING count(*) > 1",
        (
            "SELECT k, slice(sort_array(collect_set(v)), 1, 2) AS few, size(slice(array_agg(s), 4, 50)) AS n FROM t "
            "GROUP BY k HAVING size(slice(collect_set(v) FILTER (WHERE v < 3), 1, 2)) > 1"
        ),
        (
            "SELECT k, percentile_cont(0.25) WITHIN GROUP (ORDER BY n DESC) FILTER (WHERE n > 1) AS p, "
            "sum(DISTINCT m) AS d, avg(DISTINCT m + 1) FILTER (WHERE n > 1) AS a, max(DISTINCT n) AS o, "
            "mode() WITHIN GROUP (ORDER BY n) AS b, mode() WITHIN GROUP (ORDER BY n DESC) AS c, mode(s, true) AS e, "
            "percentile_disc(0.4) WITHIN GROUP (ORDER BY m DESC) AS f "
            "FROM (SELECT k, s, count(*) AS n, sum(w) AS m FROM t GROUP BY k, s) GROUP BY k"
        ),
        "SELECT DISTINCT max(v) AS most FROM t GROUP BY k",
        "SELECT count(*) AS n, sum(v) / count(v) AS mean, max(at) AS last FROM t WHERE v > 1 HAVING count(*) > 2",
        "SELECT avg(n) AS mean, max(n) FROM (SELECT k, s, count(*) AS n FROM t GROUP BY k, s)",
        "SELECT n + 1 AS n, 'all' AS what FROM (SELECT count(DISTINCT s) AS n FROM t) WHERE n > 0",
        f"SELECT k, v, s FROM ({RANKED}) WHERE n = 1",
        (
            "SELECT k, n, s, c FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY c DESC, s) AS n FROM "
            "(SELECT k, s, count(*) AS c FROM t GROUP BY k, s)) WHERE n <= 2"
        ),
        # the best of all keys, of which the key of the aggregate is that of the output
        "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c DESC, k LIMIT 2",
    ],
)
@pytest.mark.parametrize("modes", ["mixed", pytest.param("batch and streaming", marks=pytest.mark.soak)])
def test_all_modes_return_the_rows_of_sparks_batch(spark: SparkSession, table: DataFrame, sql: str, modes: str) -> None:
    job = Job("grouped", sources={"t": Source.parquet("in", schema=DDL, event_time="at")}, mode="batch")
    rows = [row.asDict() for row in table.orderBy("at").collect()]
    with views(spark, {"t": table}):
        expected = Counter(shown(row.asDict(recursive=True)) for row in spark.sql(sql).collect())
    parts = [{"t": rows[:60]}, {"t": rows[60:]}]
    if modes == "mixed":
        found = [run_graph(job.sql(sql), parts[0], live=parts[1:])]
    else:
        found = [run_graph(job.sql(sql), {"t": rows}), run_graph(job.sql(sql), live=parts)]
    for outputs in found:
        assert Counter(map(shown, outputs.table())) == expected


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT w, max(n) AS most FROM ({HOURS}) GROUP BY w",
        f"SELECT k, w.end AS until, sum(n) AS n FROM (SELECT * FROM ({HOURS}) WHERE n > 1) GROUP BY k, w",
        f"SELECT w FROM ({HOURS}) GROUP BY w",
        f"SELECT DISTINCT w, k FROM ({HOURS})",
        f"SELECT w FROM (SELECT w, k, row_number() OVER (PARTITION BY w ORDER BY n) AS p FROM ({HOURS})) WHERE p = 1",
    ],
)
def test_results_for_each_window_are_final_with_it(spark: SparkSession, tmp_path: Path, sql: str) -> None:
    job = Job("final", sources={"t": Source.parquet(tmp_path, schema=DDL, event_time="at")}, mode="batch").sql(sql)
    complete = job.write(Sink.parquet("out"))
    stages = analyse(spark, complete.spec, complete.where).plan.stages
    assert [(stage.is_window_keyed, stage.emitted.changelog) for stage in stages[1:]] == [(True, Changelog.APPEND)]
