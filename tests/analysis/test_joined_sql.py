"""A sql step with a join of two inputs becomes a step with join, which returns the rows of Spark's batch."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from mixedmode.config import JoinStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph
from tests.analysis.batch_steps import BatchSteps
from tests.analysis.grouped_rows import shown

pytestmark = pytest.mark.spark

ORDERS = "id bigint, k string, v bigint, at timestamp"
PAYMENTS = "no int, k string, w decimal(8,2), at timestamp"
START = datetime(2024, 3, 30, tzinfo=UTC)  # clocks change in Europe on the next day


def records(count: int) -> dict[str, list[dict[str, Any]]]:
    """Records of two days of each source, in the order of their times."""
    chosen = random.Random(count)

    def ordered() -> list[datetime]:
        return [START + timedelta(minutes=minute) for minute in sorted(chosen.choices(range(2880), k=count))]

    return {
        "o": [
            {"id": number, "k": chosen.choice(["a", "b", "C", None]), "v": chosen.choice([1, 2, 3, None]), "at": at}
            for number, at in enumerate(ordered())
        ],
        "p": [
            {
                "no": chosen.randrange(count),
                "k": chosen.choice(["a", "b", "c", None]),
                "w": chosen.choice(WORTH),
                "at": at,
            }
            for at in ordered()
        ],
    }


WORTH = (Decimal("1.50"), Decimal("2.00"), None)
RECORDS = records(40)


NAMES = [("a", "Anna", 1), ("b", "Bert", 2), ("b", "Berta", 3), ("C", "Cleo", 0), (None, "Nil", 4)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[dict[str, DataFrame]]:
    """RECORDS and NAMES as tables of Spark, which are computed once."""
    frames = {
        "o": spark.createDataFrame(RECORDS["o"], ORDERS).cache(),
        "p": spark.createDataFrame(RECORDS["p"], PAYMENTS).cache(),
        "d": spark.createDataFrame(NAMES, "code string, name string, w int").cache(),
    }
    with ExitStack() as stack:
        for frame in frames.values():
            frame.count()
            stack.callback(frame.unpersist)
        yield frames


def steps_over(spark: SparkSession, tables: dict[str, DataFrame]) -> BatchSteps:
    """The steps of texts over the sources o and p, and the dimension d."""
    return BatchSteps(spark, {name: tables[name] for name in ("o", "p")}, {"d": tables["d"]})


def of_batch(spark: SparkSession, tables: dict[str, DataFrame], sql: str) -> Counter[tuple[Any, ...]]:
    with views(spark, tables):
        return Counter(tuple(row) for row in spark.sql(sql).collect())


CONDITIONS = st.lists(
    st.sampled_from(
        [
            "x.v > y.w",
            "y.w > 1",
            "x.v IS NOT NULL",
            "x.id <> y.no",
            "lower(x.k) = y.k",
            "coalesce(x.k, 'c') = coalesce(y.k, 'c')",
            "x.v * 2 >= y.no - x.id",
            "soundex(x.k) <= soundex(y.k)",
            "y.at BETWEEN x.at AND x.at + INTERVAL 5 HOURS",
            "x.at <= y.at",
            "y.at - INTERVAL '1' DAY < x.at",
            "x.at - INTERVAL '90' MINUTE <= y.at + INTERVAL '0.0005' SECOND",
            "(x.v = 1 OR y.w IS NULL)",
        ]
    ),
    max_size=4,
)
KEYS = st.sampled_from(["x.id = y.no", "x.k = y.k AND x.v = y.no % 4", "y.k || '-' = lower(x.k) || '-'"])
SHAPES = st.sampled_from(
    [
        "SELECT x.id, y.no, y.w FROM {x} x {type} JOIN {y} y ON {on}",
        "SELECT y.at AS at, x.at AS other, x.v + y.no AS both FROM {x} x {type} JOIN {y} y ON {on} WHERE x.v > 1",
        "SELECT coalesce(y.k, x.k) AS k, x.v FROM {x} x {type} JOIN {y} y ON {on} WHERE y.w IS NULL OR x.v IS NULL",
        "SELECT 'one' AS one FROM {x} AS x {type} JOIN {y} AS y ON {on}",
        "SELECT x.k, count(*) AS n, max(y.at) AS last FROM {x} x {type} JOIN {y} y ON {on} GROUP BY x.k",
        "SELECT DISTINCT x.v, y.w FROM {x} x {type} JOIN {y} y ON {on}",
        "SELECT x.id, y.at FROM {x} x {type} JOIN {y} y ON {on} UNION ALL SELECT v, at - INTERVAL 1 DAY FROM o",
        (
            "SELECT a.id, a.no, z.v FROM (SELECT x.id, y.no, x.at FROM {x} x {type} JOIN {y} y ON {on}) a LEFT JOIN o "
            "z ON a.no = z.id AND z.at BETWEEN a.at - INTERVAL 1 DAY AND a.at + INTERVAL 1 DAY"
        ),
        (
            "WITH j AS (SELECT x.k, y.no FROM {x} x {type} JOIN {y} y ON {on}), n AS (SELECT k, count(*) AS n FROM o "
            "GROUP BY k) SELECT j.no, n.n FROM j JOIN n ON j.k = n.k WHERE n.n > 2"
        ),
    ]
)
LEFTS = st.sampled_from(
    [
        "o",
        "(SELECT * FROM o WHERE v < 3)",
        "(SELECT id, upper(k) AS k, v, at FROM o)",
        "(SELECT o.id, coalesce(d.name, o.k) AS k, o.v, o.at FROM o LEFT JOIN d ON o.k = d.code AND d.w > 0)",
    ]
)
RIGHTS = st.sampled_from(
    [
        "p",
        "(SELECT no + 1 AS no, k, w, at FROM p)",
        "(SELECT no, k, w, at FROM p UNION ALL SELECT CAST(id AS INT), lower(k), v, at FROM o WHERE v > 1)",
    ]
)


@given(
    shape=SHAPES,
    left=LEFTS,
    right=RIGHTS,
    kind=st.sampled_from(["", "LEFT", "RIGHT", "FULL"]),
    key=KEYS,
    conditions=CONDITIONS,
)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_join_returns_the_rows_of_sparks_batch(
    spark: SparkSession,
    tables: dict[str, DataFrame],
    shape: str,
    left: str,
    right: str,
    kind: str,
    key: str,
    conditions: list[str],
) -> None:
    sql = shape.format(x=left, y=right, type=kind, on=" AND ".join([key, *conditions]))
    assert Counter(steps_over(spark, tables).rows(sql)) == of_batch(spark, tables, sql), sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.* FROM o LEFT SEMI JOIN p ON o.id = p.no AND p.w > 1",
        "SELECT id FROM o LEFT ANTI JOIN p ON o.id = p.no AND p.at >= o.at",
        "SELECT o.id, no, w FROM o, p WHERE id = no AND v + w > 3",
        "SELECT * FROM (SELECT id AS n, v FROM o) FULL JOIN (SELECT no AS n, w FROM p) USING (n)",
        "FROM o |> JOIN p ON id = no |> WHERE w > 1 |> SELECT id, w",
        "SELECT * FROM o NATURAL JOIN (SELECT no AS id, w FROM p) WHERE v > 1",
        "SELECT a.id, b.id AS other FROM o a JOIN o b ON a.k = b.k AND a.id < b.id",
        "WITH c AS (SELECT id, k FROM o) SELECT x.id, y.id AS other FROM c x JOIN c y ON x.k = y.k",
        "SELECT id, e FROM (SELECT id, e FROM o LATERAL VIEW explode(array(v, 7)) t AS e) JOIN p ON id = no AND e > w",
        "SELECT o.id, e FROM o JOIN p ON o.id = p.no LATERAL VIEW explode(array(o.v, p.w)) t AS e",
        "SELECT x.id, q.w FROM o x JOIN p y ON x.id = y.no JOIN p q ON q.k = y.k AND q.no > x.v",
        "SELECT x.k, y.k AS y, q.k AS z, y.at FROM o x JOIN p y ON x.id = y.no JOIN o q ON q.id = y.no AND q.at < x.at",
        (
            "SELECT id, no FROM (SELECT o.id, p.no, row_number() OVER (PARTITION BY o.k ORDER BY o.id, p.at, p.no) "
            "AS n FROM o JOIN p ON o.id = p.no) WHERE n <= 2"
        ),
    ],
)
def test_joins_of_all_kinds_return_the_rows_of_sparks_batch(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str
) -> None:
    assert Counter(steps_over(spark, tables).rows(sql)) == of_batch(spark, tables, sql)


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT id, k FROM o WHERE id IN (SELECT no FROM p WHERE w > 1) AND v > 1", ["semi"]),
        (
            (
                "SELECT id FROM o WHERE k IN (SELECT k FROM p GROUP BY k HAVING count(*) > 9) AND NOT EXISTS (SELECT "
                "* FROM p WHERE p.no = o.id AND p.at BETWEEN o.at AND o.at + INTERVAL 9 HOURS)"
            ),
            ["semi", "anti"],
        ),
        # a NULL of either side counts in NOT IN, unless a condition says that there is none
        ("SELECT id FROM o WHERE k NOT IN (SELECT k FROM p WHERE nvl(p.w, 0) > nvl(o.v, 1) AND no = id)", ["anti"]),
        (
            "SELECT id FROM (SELECT * FROM o WHERE v > 1) WHERE NOT v IN (SELECT no FROM p WHERE no IS NOT NULL)",
            ["anti"],
        ),
        (
            (
                "WITH c AS (SELECT no, k FROM p WHERE w > 1) SELECT k, count(*) AS n FROM o WHERE id IN (SELECT no "
                "FROM c WHERE k IN (SELECT k FROM o WHERE v = 1)) GROUP BY k"
            ),
            ["semi", "semi"],
        ),
        (
            (
                "SELECT id, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM o WHERE k IN "
                "(SELECT code FROM d) AND id IN (SELECT no FROM p WHERE k IN (SELECT code FROM d))) WHERE n <= 2"
            ),
            ["semi"],
        ),
    ],
)
def test_subqueries_in_where_are_joins(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str, kinds: list[str]
) -> None:
    steps = steps_over(spark, tables)
    assert Counter(steps.rows(sql)) == of_batch(spark, tables, sql)
    assert sorted(one.join.type for one in steps.steps.values() if isinstance(one, JoinStep)) == sorted(kinds)


@pytest.mark.parametrize(
    ("sql", "within"),
    [
        ("SELECT o.id, p.w, d.name FROM o JOIN p ON o.id = p.no JOIN d ON o.k = d.code", None),
        ("SELECT o.id, p.w, d.name FROM d JOIN o ON o.k = d.code LEFT JOIN p ON o.id = p.no AND d.w < p.w", None),
        ("SELECT o.id, d.name FROM d RIGHT JOIN o ON o.k = d.code JOIN p ON o.id = p.no WHERE d.w IS NULL", None),
        ("SELECT o.id, a.name, b.name AS other FROM o JOIN p ON id = no JOIN d a ON o.k = a.code, d b", None),
        ("SELECT o.id, p.w FROM o JOIN p ON o.id = p.no WHERE o.k IN (SELECT code FROM d WHERE w > 1)", None),
        ("SELECT o.id FROM o JOIN p ON id = no WHERE NOT EXISTS (SELECT 1 FROM d WHERE code = p.k AND w > v)", None),
        ("SELECT d.name, count(*) AS n FROM o JOIN p ON o.id = p.no JOIN d ON o.k = d.code GROUP BY d.name", None),
        (
            (
                "SELECT o.id, x.name FROM o JOIN p ON o.id = p.no AND p.at BETWEEN o.at AND o.at + INTERVAL 5 HOURS "
                "JOIN (SELECT upper(code) AS at, name FROM d WHERE w > 0) x ON upper(o.k) = x.at"
            ),
            (0, 18_000_000),
        ),
        (
            (
                "SELECT o.id, q.at FROM o JOIN (SELECT no, at FROM p WHERE w > 1 UNION ALL SELECT id + 1, at FROM o) q "
                "ON o.id = q.no AND q.at BETWEEN o.at AND o.at + INTERVAL 1 DAY"
            ),
            (0, 86_400_000),
        ),
        ("SELECT q.id FROM (SELECT id FROM o UNION ALL SELECT id FROM o WHERE v > 1) q JOIN p ON p.no = q.id", None),
        ("SELECT id, no FROM o JOIN p ON id = no UNION ALL SELECT no, no FROM p WHERE w > 1", None),
        (
            (
                "SELECT z.id, q.x FROM o z JOIN (SELECT x.id, y.no AS x FROM o x JOIN p y ON x.k = y.k UNION ALL "
                "SELECT no, 1 FROM p) q ON z.id = q.id"
            ),
            None,
        ),
        # what is computed under the name of the event time is none, whether or not something reads the event time
        (
            (
                "SELECT q.id FROM (SELECT id, at FROM o UNION ALL SELECT no, at - INTERVAL 1 DAY AS at FROM p) q JOIN "
                "p ON p.no = q.id AND p.at BETWEEN q.at AND q.at + INTERVAL 1 DAY"
            ),
            None,
        ),
        (
            (
                "SELECT q.id FROM (SELECT id, timestamp_seconds(1711756800 + id * 60) AS at FROM o) q JOIN p ON "
                "q.id = p.no AND p.at BETWEEN q.at AND q.at + INTERVAL 30 HOURS"
            ),
            None,
        ),
    ],
)
def test_joins_with_dimensions_and_unions_return_the_rows_of_sparks_batch(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str, within: tuple[int, int] | None
) -> None:
    steps = steps_over(spark, tables)
    assert Counter(steps.rows(sql)) == of_batch(spark, tables, sql)
    joins = [step.join for step in steps.steps.values() if isinstance(step, JoinStep)]
    assert joins
    assert {join.within for join in joins} == {within}


def test_explain_says_when_a_row_without_a_partner_is_emitted(spark: SparkSession, tmp_path: Path) -> None:
    sources = {
        name: Source.parquet(tmp_path / "in", schema=schema, event_time="at")
        for name, schema in (("o", ORDERS), ("p", PAYMENTS))
    }
    (tmp_path / "in").mkdir()
    near = "p.no = o.id AND p.at BETWEEN o.at AND o.at + INTERVAL 4 HOURS"
    job = Job("unpaid", sources=sources, mode="batch").sql(
        f"SELECT id, at FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE {near})"
    )
    text = job.write(Sink.parquet(tmp_path / "out")).explain()
    assert "joins       anti: o with p whose time is from 0s to 4h after its own" in text
    assert "emits       a row of the left without a partner, once none can come any more" in text


@pytest.mark.parametrize(
    ("on", "within", "condition"),
    [
        ("y.at BETWEEN x.at AND x.at + INTERVAL 4 HOURS", (0, 14_400_000), None),
        ("x.at >= y.at - INTERVAL '90' MINUTE AND x.at <= y.at", (0, 5_400_000), None),
        ("y.at = x.at", (0, 0), None),
        ("y.at > x.at AND y.at < x.at + INTERVAL '1' SECOND", (0, 1000), "left.`at` < right.`at`"),
        ("y.at BETWEEN x.at - INTERVAL '0.0015' SECOND AND x.at", (-2, 0), "at_INTERVAL_00_0015_SECOND"),
        ("y.at BETWEEN x.at AND x.at + INTERVAL 2 DAYS", (0, 259_200_000), "at_INTERVAL_2_DAY"),
        ("y.at >= x.at", None, "left.`at` <= right.`at`"),
        ("y.at BETWEEN x.at + INTERVAL 1 HOUR AND x.at", None, "left.`at` >= right.`at`"),
        ("y.at BETWEEN x.at AND x.at + INTERVAL 1 MONTH", None, "INTERVAL_1_MONTH"),
    ],
)
def test_conditions_on_both_event_times_bound_the_join(
    spark: SparkSession, tables: dict[str, DataFrame], on: str, within: tuple[int, int] | None, condition: str | None
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        steps = steps_over(spark, tables)
        sql = f"SELECT x.id, y.w FROM o x JOIN p y ON x.id = y.no AND {on}"
        assert Counter(steps.rows(sql)) == of_batch(spark, tables, sql)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    join = steps.steps["sql-1"].join
    assert join.within == within
    if condition is None:
        assert join.condition is None
    else:
        assert condition in join.condition


@pytest.mark.parametrize(
    ("sql", "times"),
    [
        ("SELECT x.id, x.at, y.at AS paid FROM o x JOIN p y ON x.id = y.no AND {}", {"sql-1": "at"}),
        ("SELECT x.id, y.at FROM o x JOIN p y ON x.id = y.no AND {}", {"sql-1": "at"}),
        ("SELECT y.at, x.at AS ordered FROM o x JOIN p y ON x.id = y.no AND {}", {"sql-1": "ordered"}),
        ("SELECT y.at FROM o x LEFT JOIN p y ON x.id = y.no AND {}", {"sql-1": None}),
        ("SELECT x.at, y.at AS paid FROM o x RIGHT JOIN p y ON x.id = y.no AND {}", {"sql-1": "paid"}),
        ("SELECT date(x.at) AS at, y.w FROM o x JOIN p y ON x.id = y.no AND {}", {"sql-1": None}),
        (
            "SELECT x.id, z.v FROM (o x JOIN p y ON x.id = y.no AND {}) JOIN o z ON z.id = y.no AND z.at = x.at",
            {"sql-1": None, "sql-1-left": "at"},
        ),
    ],
)
def test_pairs_have_the_event_time_of_a_side(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str, times: dict[str, str | None]
) -> None:
    steps = steps_over(spark, tables)
    steps.frame(sql.format("y.at BETWEEN x.at AND x.at + INTERVAL 4 HOURS"))
    assert {name: step.join.event_time for name, step in steps.steps.items()} == times


def test_a_computed_column_with_the_name_of_the_event_time_is_not_taken_for_it(
    spark: SparkSession, tables: dict[str, DataFrame]
) -> None:
    steps = steps_over(spark, tables)
    sql = "SELECT date(x.at) AS at FROM o x LEFT SEMI JOIN p y ON x.id = y.no AND y.at = x.at"
    assert Counter(steps.rows(sql)) == of_batch(spark, tables, sql)
    assert steps.steps["sql-1"].join.select == ("left.`at` AS at_2",)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT o.id FROM o CROSS JOIN p", "meet by key"),
        ("SELECT o.id FROM o JOIN p ON o.id <=> p.no", "meet by key"),
        ("SELECT * FROM o JOIN p ON o.id = p.no", "two columns have one name"),
        ("SELECT o.id FROM o JOIN p ON o.id = p.no AND exists(array(o.v), x -> x > p.w)", "cannot be written out"),
        ("SELECT id FROM o WHERE id NOT IN (SELECT no FROM p)", "NOT IN returns no row at all as soon as"),
        ("SELECT id FROM o WHERE id NOT IN (SELECT no FROM p WHERE no > 1)", "NOT IN of values that may be NULL"),
        ("SELECT id FROM o WHERE v = 1 OR id IN (SELECT no FROM p)", "For a column, or with OR, use LEFT JOIN"),
        ("SELECT id FROM o WHERE id IN (SELECT no FROM p WHERE p.k = o.k LIMIT 1)", "no step joins two inputs in this"),
        ("SELECT id FROM o WHERE id IN (SELECT nope FROM p)", "name `nope` cannot be resolved"),
        ("SELECT k FROM o GROUP BY k HAVING k IN (SELECT k FROM p)", "no step joins two inputs in this way"),
        ("SELECT id FROM o WHERE EXISTS (SELECT 1 FROM p)", "EXISTS that compares it with the record"),
        (
            "SELECT o.id FROM o JOIN p ON o.id = p.no JOIN VALUES (1) AS c(n) ON o.id = c.n",
            "What is no input is a dimension, with SELECT and WHERE.",
        ),
        (
            "SELECT count(*) AS n FROM o JOIN p ON o.id = p.no GROUP BY window(o.at, '1 hour')",
            "windows go by event time",
        ),
        (
            "SELECT max(o.at) AS last FROM o GROUP BY window(at + INTERVAL 0 HOURS, '1 hour')",
            "cannot be written out",
        ),
    ],
)
def test_what_no_join_is_is_refused(spark: SparkSession, sql: str, problem: str) -> None:
    with pytest.raises(InvalidJobError, match=problem) as raised:
        run_graph(job_of(sql), {"o": [], "p": []})
    assert str(raised.value).startswith("steps[0].sql: ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.id, p.w FROM o JOIN p ON o.id = p.no AND p.at BETWEEN o.at AND o.at + INTERVAL 20 HOURS",
        (
            "SELECT window.start AS since, count(*) AS n, max(o.at) AS last FROM o JOIN p ON lower(o.k) = p.k AND p.at "
            "BETWEEN o.at - INTERVAL 2 HOURS AND o.at GROUP BY window(p.at, '6 hours')"
        ),
        "SELECT o.id, p.no FROM o LEFT JOIN p ON o.id = p.no AND p.at > o.at AND p.at < o.at + INTERVAL 1 DAY",
        "SELECT o.k, p.w, count(*) AS n FROM o FULL JOIN p ON o.id = p.no GROUP BY ALL",
        # what is computed under the name of the event time is none, and its rows are not late
        (
            "SELECT o.id, p.no FROM (SELECT id, k, at - INTERVAL 1 DAY AS at FROM o) o JOIN p ON o.k = p.k AND p.at "
            "BETWEEN o.at AND o.at + INTERVAL 30 HOURS"
        ),
        "SELECT a.k, count(*) AS n FROM o a JOIN o b ON a.k = b.k AND a.v < b.v GROUP BY a.k",
        (
            "SELECT window.start AS since, count(*) AS n FROM o WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.k = o.k AND "
            "p.at BETWEEN o.at AND o.at + INTERVAL 2 HOURS) GROUP BY window(at, '6 hours')"
        ),
        (
            "SELECT k, count(*) AS n FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE p.no = o.id) AND v IN (SELECT no "
            "FROM p) GROUP BY k"
        ),
        # the key of the output is that of the left, whose rows have one partner
        (
            "SELECT a.k, a.v, 100 * a.n / b.n AS share, c.n AS newest FROM (SELECT k, v, count(*) AS n FROM o GROUP BY "
            "k, v) a JOIN (SELECT k, count(*) AS n FROM o GROUP BY k) b ON a.k = b.k LEFT JOIN (SELECT k, w AS n FROM "
            "p QUALIFY row_number() OVER (PARTITION BY k ORDER BY at DESC, no) = 1) c ON a.k = c.k"
        ),
    ],
)
@pytest.mark.parametrize("modes", ["mixed", pytest.param("batch and streaming", marks=pytest.mark.soak)])
def test_all_modes_return_the_joins_of_sparks_batch(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str, modes: str
) -> None:
    with views(spark, tables):
        expected = Counter(shown(row.asDict()) for row in spark.sql(sql).collect())
    parts = [{name: rows[part] for name, rows in RECORDS.items()} for part in (slice(20), slice(20, None))]
    if modes == "mixed":
        found = [run_graph(job_of(sql), parts[0], live=parts[1:])]
    else:
        found = [run_graph(job_of(sql), RECORDS), run_graph(job_of(sql), live=parts)]
    for outputs in found:
        assert Counter(map(shown, outputs.table())) == expected
        assert outputs.records_late == 0


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_a_distance_of_local_times_is_that_of_sparks_batch_where_clocks_are_moved(
    spark: SparkSession, kind: str
) -> None:
    schema = "id bigint, k string, at timestamp_ntz"
    starts = [datetime(2024, 3, 31), datetime(2024, 10, 26, 22)]  # noqa: DTZ001 - local times
    rows: list[dict[str, Any]] = [
        {"id": number, "k": "a", "at": starts[number // 20] + timedelta(minutes=20 * (number % 20))}
        for number in range(40)
    ]
    minutes = [(x["id"], y["id"], (y["at"] - x["at"]) / timedelta(minutes=1)) for x in rows for y in rows]
    expected = [(x, y) for x, y, minute in minutes if 50 <= minute <= 90]
    if kind == "LEFT JOIN":
        expected += [(number, None) for number in {row["id"] for row in rows} - {x for x, _ in expected}]
    sources = {name: Source.parquet("in", schema=schema, event_time="at", out_of_orderness="0s") for name in "op"}
    job = Job("local", sources=sources, mode="batch", spark={"sql.session.timeZone": "Europe/Berlin"}).sql(
        f"SELECT x.id, y.id AS other FROM o x {kind} p y ON x.k = y.k AND y.at BETWEEN x.at + INTERVAL 50 MINUTES AND "
        "x.at + INTERVAL 90 MINUTES"
    )
    parts = [{"o": rows[part], "p": rows[part]} for part in (slice(17), slice(17, None))]
    found = run_graph(job, parts[0], live=parts[1:])
    assert sorted(map(str, expected)) == sorted(str((row["id"], row["other"])) for row in found.table())
    assert found.records_late == 0


def job_of(sql: str) -> Job:
    sources = {
        name: Source.parquet("in", schema=schema, event_time="at", out_of_orderness="0s")
        for name, schema in (("o", ORDERS), ("p", PAYMENTS))
    }
    return Job("joined", sources=sources, mode="batch").sql(sql)
