"""Joins and unions of streaming DataFrames, also with tables, become steps, which return the rows of Spark's batch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink
from mixedmode.spark.temporary_views import views
from mixedmode.testing import run_graph
from tests.analysis.grouped_rows import shown
from tests.analysis.test_joined_sql import ORDERS, PAYMENTS, RECORDS

pytestmark = pytest.mark.spark

#: makes a DataFrame of two, streaming or not
Query: TypeAlias = Callable[[DataFrame, DataFrame], DataFrame]

SOON = "o.k = p.k AND p.at BETWEEN o.at AND o.at + INTERVAL 4 HOURS"


def on(condition: str, how: str = "inner") -> Query:
    """The join of two DataFrames with the names o and p."""
    return lambda o, p: o.alias("o").join(p.alias("p"), F.expr(condition), how)


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    orders, payments = (
        spark.readStream.schema(ddl).parquet(str(tmp_path_factory.mktemp(name))).withWatermark("at", delay)
        for name, ddl, delay in (("o", ORDERS, "1 hour"), ("p", PAYMENTS, "1 hour"))
    )
    return orders, payments


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    orders, payments = (
        spark.createDataFrame(RECORDS[name], ddl).coalesce(1).cache() for name, ddl in (("o", ORDERS), ("p", PAYMENTS))
    )
    with ExitStack() as stack:
        for frame in (orders, payments):
            frame.count()
            stack.callback(frame.unpersist)
        yield orders, payments


def records_of(job: Job) -> dict[str, list[dict[str, Any]]]:
    """The records of each source, which is of orders or of payments."""
    schemas = {
        name: source.model_dump(by_alias=True)["schema"].split()[0] for name, source in job.settings.sources.items()
    }
    return {name: RECORDS["o" if first == "id" else "p"] for name, first in schemas.items()}


def rows_in(mode: str, job: Job) -> Counter[tuple[str, ...]]:
    """The rows of a job whose records arrive in two parts."""
    given = records_of(job)
    parts = [{name: rows[part] for name, rows in given.items()} for part in (slice(24), slice(24, None))]
    match mode:
        case "batch":
            found = run_graph(job, given)
        case "mixed":
            found = run_graph(job, parts[0], live=parts[1:])
        case _:
            found = run_graph(job, live=parts)
    return Counter(map(shown, found.table()))


def of_batch(query: Query, tables: tuple[DataFrame, DataFrame]) -> Counter[tuple[str, ...]]:
    return Counter(shown(row.asDict(recursive=True)) for row in query(*tables).collect())


@pytest.fixture(scope="module", autouse=True)
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A table of files with names of values, and its lines."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "names.csv").write_text("v,name\n1,one\n2,two\n2,zwei\n9,nine\n", encoding="utf-8")
    table = spark.read.option("header", True).option("inferSchema", True).csv(str(folder))
    with views(spark, {"names": table, "lines": spark.read.text(str(folder))}):
        yield


def names_of(frame: DataFrame) -> DataFrame:
    """The table with names of values."""
    return frame.sparkSession.table("names")


STEPS: Mapping[str, tuple[Query, list[dict[str, Any]]]] = {
    "names that both sides have are changed": (
        lambda o, p: on("o.id = p.no")(o, p).select("o.k", "p.k", F.col("p.at").alias("paid")),
        [{
            "name": "rows_1", "from": ["records_1", "records_2"],
            "sql": "SELECT k, k_2 AS k, at_2 AS paid FROM records_1 INNER JOIN (SELECT no, k AS k_2, w, at AS at_2 "
            "FROM records_2) ON (id = CAST(no AS BIGINT))",
        }],
    ),
    "a side with an aggregate is a step": (
        lambda o, p: o.groupBy("k").agg(F.sum("v").alias("s")).join(p.select("k", "no"), "k", "left_semi"),
        [
            {"name": "rows_1", "from": ["records_1"], "sql": "SELECT k, sum(v) AS s FROM records_1 GROUP BY k"},
            {
                "name": "rows_2", "from": ["rows_1", "records_2"],
                "sql": "SELECT k, s FROM rows_1 LEFT SEMI JOIN (SELECT k AS k_2, no FROM records_2) ON (k = k_2)",
            },
        ],
    ),
    "rows that are deduplicated below and above": (
        lambda o, p: o.dropDuplicates(["k"]).select("k").union(p.select("k")).distinct(),
        [
            {"name": "rows_1", "from": ["records_1"], "key-by": ["k"], "deduplicate": {"keep": "any"}},
            {
                "name": "rows_2", "from": ["rows_1", "records_2"],
                "sql": "SELECT * FROM (SELECT k FROM rows_1 UNION ALL SELECT k FROM records_2)",
            },
            {"name": "rows_3", "from": ["rows_2"], "key-by": ["k"], "deduplicate": {"keep": "any"}},
        ],
    ),
    "a table is a dimension, and no input": (
        lambda o, p: on("o.id = p.no")(o.join(names_of(o).where("v > 1"), "v"), p).select("o.name"),
        [
            {
                "name": "rows_1", "from": ["records_1"],
                "sql": "SELECT v, id, k, at, name FROM records_1 INNER JOIN (SELECT v AS v_2, name FROM table_1 WHERE "
                "(v > 1)) ON (v = CAST(v_2 AS BIGINT))",
            },
            {
                "name": "rows_2", "from": ["rows_1", "records_2"],
                "sql": "SELECT name FROM rows_1 INNER JOIN (SELECT no, k AS k_2, w, at AS at_2 FROM records_2) ON (id "
                "= CAST(no AS BIGINT))",
            },
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("query", "steps"), STEPS.values(), ids=STEPS)
def test_the_steps_of_streams(streams: tuple[DataFrame, DataFrame], query: Query, steps: list[dict[str, Any]]) -> None:
    job = Job.from_stream(query(*streams), "taken", mode="batch")
    assert [step.model_dump(mode="json", by_alias=True, exclude_defaults=True) for step in job.steps] == steps


QUERIES: Mapping[str, Query] = {
    "windows over pairs": lambda o, p: (
        on(SOON)(o, p).groupBy(F.window("o.at", "6 hours")).agg(F.count("*").alias("n"), F.max("p.at").alias("last"))
    ),
    "windows over pairs, by the time of the right": lambda o, p: (
        on(SOON)(o, p).groupBy(F.window("p.at", "6 hours")).agg(F.count("*").alias("n"))
    ),
    "an event time under another name": lambda o, _: (
        o.selectExpr("at AS placed", "'x' AS at", "k").groupBy(F.window("placed", "6 hours"), "k").count()
    ),
    "a computed column with the name of the event time": lambda o, p: (
        on("o.k = p.k AND p.at BETWEEN o.at AND o.at + INTERVAL 30 HOURS")(
            o.withColumn("at", F.expr("at - INTERVAL 1 DAY")), p
        ).select("o.id", "o.at", "p.no")
    ),
    "a computed one beside the event time": lambda o, p: (
        on("o.k = p.k AND p.at BETWEEN o.placed AND o.placed + INTERVAL 4 HOURS", "left")(
            o.selectExpr("at - INTERVAL 1 DAY AS at", "at AS placed", "id", "k"), p
        ).select("o.id", "o.at", "p.w")
    ),
    "an outer join within a time": lambda o, p: on(SOON, "left")(o, p).select("o.id", "o.at", "p.w"),
    "a column that is computed below an outer join": lambda o, p: (
        on(SOON, "left")(o, p.withColumn("w", F.coalesce("w", F.lit(0)))).select("id", F.coalesce("w", F.lit(7)))
    ),
    "rows with a partner": on("o.id = p.no AND p.w > 1", "left_semi"),
    "a stream with itself": lambda o, _: (
        o.alias("a").join(o.alias("b"), F.expr("a.k = b.k AND a.id = b.v")).select("a.id", "b.v")
    ),
    "three streams": lambda o, p: (
        on("o.id = p.no")(o, p).select("o.id", "p.k").alias("x").join(o.alias("z"), F.expr("x.id = z.v"), "left_semi")
    ),
    "explode below and above": lambda o, p: (
        on("e = no")(o.withColumn("e", F.explode(F.array("v", "id"))), p.drop("k", "at"))
        .withColumn("other", F.explode(F.array("v", "no")))
        .select("e", "other", "w")
    ),
    "windows over a union": lambda o, p: (
        o.select("k", "at").union(p.select("k", "at")).groupBy(F.session_window("at", "2 hours"), "k").count()
    ),
    "three streams, by name, one without a column": lambda o, p: (
        o.unionByName(p, allowMissingColumns=True).unionByName(o, allowMissingColumns=True).where("k <> 'a'")
    ),
    "a join of a union": lambda o, p: on("o.id = p.no")(o.select("id", "k").union(p.select("no", "k")), p).select("w"),
    "a union of a join": lambda o, p: (
        on("id = no")(o, p.drop("k", "at")).select("id", "w").union(o.selectExpr("id", "CAST(v AS decimal(8,2))"))
    ),
    "windows over a join with a table": lambda o, _: (
        o.join(F.broadcast(names_of(o)), "v", "left").groupBy(F.window("at", "6 hours"), "name").count()
    ),
    "a table on the left, with windows on the right": lambda o, _: (
        names_of(o).join(o.groupBy(F.window("at", "6 hours"), "v").count(), "v", "right")
    ),
    "a union with a table": lambda o, p: o.select("v").union(p.select("no")).join(names_of(o), "v", "left_anti"),
    "a key as a condition above": lambda o, p: o.crossJoin(p.drop("k", "at")).where("id = no"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "mode"), list(zip(QUERIES.values(), cycle(["mixed", "streaming", "batch"]))), ids=QUERIES
)
def test_the_modes_return_the_rows_of_sparks_batch(
    streams: tuple[DataFrame, DataFrame], tables: tuple[DataFrame, DataFrame], query: Query, mode: str
) -> None:
    job = Job.from_stream(query(*streams), "taken", mode="batch")
    expected = of_batch(query, tables)
    assert expected
    assert rows_in(mode, job) == expected


def test_explain_does_not_show_a_name_that_spark_makes(streams: tuple[DataFrame, DataFrame]) -> None:
    job = Job.from_stream(QUERIES["windows over a join with a table"](*streams), "taken", mode="batch")
    text = job.write(Sink.parquet("/out")).explain()
    assert "SELECT name, at FROM (SELECT v, id, k, at, name FROM records LEFT OUTER JOIN" in text
    assert "__auto" not in text


SIDES = st.sampled_from([["*"], ["*", "upper(k) AS `K 2`"], ["at", "k", "k AS id"], ["at", "coalesce(k, 'z') AS k"]])
BOUNDS = st.sampled_from(
    ["", " AND p.at >= o.at", " AND p.at BETWEEN o.at - INTERVAL 1 HOUR AND o.at + INTERVAL 2 HOURS"]
)


@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    left=SIDES,
    right=SIDES,
    bound=BOUNDS,
    kind=st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
    key=st.sampled_from(["o.k", "coalesce(o.k, 'n') AS k", "hour(o.at) AS k"]),
    mode=st.sampled_from(["batch", "mixed", "streaming"]),
)
def test_a_join_returns_the_rows_of_sparks_batch(
    streams: tuple[DataFrame, DataFrame],
    tables: tuple[DataFrame, DataFrame],
    left: list[str],
    right: list[str],
    bound: str,
    kind: str,
    key: str,
    mode: str,
) -> None:
    def query(o: DataFrame, p: DataFrame) -> DataFrame:
        pairs = on(f"o.k = p.k{bound}", kind)(o.selectExpr(*left), p.selectExpr(*right))
        return pairs.selectExpr(key).groupBy("k").count()

    job = Job.from_stream(query(*streams), "taken", mode="batch")
    assert rows_in(mode, job) == of_batch(query, tables)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            lambda o, p: on("o.id = p.no")(o, p.drop("at")).withWatermark("at", "1 hour"),
            "call withWatermark once for each stream, before they are joined. found=a second withWatermark",
        ),
        (
            lambda o, p: o.select("k").union(p.withWatermark("at", "2 hours").select("k")),
            "found=a second withWatermark",
        ),
        (
            lambda o, _: o.withColumn("at", F.expr("at - INTERVAL 1 DAY")).groupBy(F.window("at", "1 day")).count(),
            "for the column that it goes by, .* found=window without a watermark",
        ),
        (
            lambda o, p: (
                o.select("at").union(p.selectExpr("at - INTERVAL 1 DAY")).groupBy(F.window("at", "1 day")).count()
            ),
            "found=window without a watermark",
        ),
        (
            lambda o, _: o.selectExpr("id", "at - INTERVAL 1 DAY AS at").dropDuplicatesWithinWatermark(["id"]),
            "found=DeduplicateWithinWatermark without a watermark",
        ),
        (lambda o, p: o.select("k").intersect(p.select("k")), "Or use a step with join, of type semi. found=Intersect"),
        (lambda o, p: o.unionByName(o.sparkSession.createDataFrame([], p.schema), True), "found=Union"),
        (lambda o, p: o.join(o.sparkSession.range(3), "id"), "is one of spark.read, .* found=Range in a table"),
        (lambda o, p: o.join(names_of(o).distinct(), "v"), "found=Deduplicate in a table"),
        (
            lambda o, p: o.join(o.sparkSession.table("lines"), F.expr("k = value")),
            "of parquet, json, csv .* found=text",
        ),
        (lambda o, p: o.join(names_of(o).union(names_of(o)), "v"), "found=Union in a table"),
    ],
)
def test_what_a_job_cannot_take_over_is_refused(streams: tuple[DataFrame, DataFrame], query: Query, found: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"(?s)^Job\.from_stream: .*{found}"):
        Job.from_stream(query(*streams), "taken", mode="batch")


def test_rows_are_kept_within_the_delay_that_all_watermarks_have(
    streams: tuple[DataFrame, DataFrame], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    orders, payments = streams
    other = spark.readStream.schema(PAYMENTS).parquet(str(tmp_path_factory.mktemp("p"))).withWatermark("at", "2 hours")
    query = orders.select("k", "at").union(payments.select("k", "at")).dropDuplicatesWithinWatermark(["k"])
    step = Job.from_stream(query, "taken", mode="batch").steps[-1]
    assert step.model_dump(mode="json", by_alias=True)["deduplicate"]["within"] == "1h"
    mixed = orders.select("k", "at").union(other.select("k", "at")).dropDuplicatesWithinWatermark(["k"])
    with pytest.raises(InvalidJobError, match=r"or give all of them the same delay\. found=DeduplicateWithin"):
        Job.from_stream(mixed, "taken", mode="batch")
