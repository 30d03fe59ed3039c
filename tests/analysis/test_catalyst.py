"""The reader of SQL on the installed Spark: golden summaries, and the judgement of many texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst import analysed, column_ids, read_frame, read_query
from mixedmode.analysis.catalyst_objects import columns_of, id_of
from mixedmode.analysis.plan import Node, nodes_of, subqueries_of
from mixedmode.analysis.sql_checks import check_query, check_repeatable, check_stateless
from mixedmode.errors import InvalidJobError
from mixedmode.spark.temporary_views import views
from tests.harness import write_parquet, write_text
from tests.random_cases import random_cases

pytestmark = pytest.mark.spark

COLUMNS = "k string, v bigint, at timestamp, l array<bigint>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="module")
def stream(spark: SparkSession, folder: Path) -> Iterator[DataFrame]:
    """A stream of files, under the names t and Other."""
    frame = spark.readStream.schema(COLUMNS).parquet(str(folder))
    with views(spark, {"t": frame, "Other": frame}):
        yield frame


@pytest.fixture(scope="module")
def table(spark: SparkSession, folder: Path) -> Iterator[str]:
    write_parquet(folder / "table", "a.parquet", pa.table({"k": ["a"], "x": [1]}))
    spark.sql(f"CREATE TABLE known_names USING parquet LOCATION '{folder / 'table'}'")
    yield "known_names"
    spark.sql("DROP TABLE known_names")


def read(spark: SparkSession, sql: str) -> Node | None:
    return read_query(spark, sql, inputs=["t", "other"]).node


def summary(plan: Node) -> str:
    """Kinds from the top, with names, those of children and subqueries in brackets; what streams is marked with ~."""
    head = ("~" if plan.is_streaming else "") + plan.kind + (f" {plan.name}" if plan.name else "")
    parts = [summary(part) for part in (*subqueries_of(plan), *plan.children)]
    return f"{head}({', '.join(parts)})" if parts else head


def problem(spark: SparkSession, sql: str, *, allows_clock: bool = False) -> str:
    """Return the problem that is found in a text, or "" if it is accepted."""
    try:
        plan = check_query(read(spark, sql), where="")
        check_stateless(plan, where="")
        check_repeatable(plan, where="", is_keyed=False, allows_clock=allows_clock)
    except InvalidJobError as error:
        return str(error).rpartition("=")[2]
    return ""


T = "~SubqueryAlias(~Input t)"
ONE = "SubqueryAlias(LocalRelation)"
GOLDEN = {
    "SELECT k, v + 1 AS w FROM t WHERE v > 0": f"~Project(~Filter({T}))",
    "TABLE t": T,
    "FROM t |> WHERE v > 1": f"~Filter(~PipeOperator({T}))",
    "SELECT * FROM Other": "~Project(~SubqueryAlias(~Input Other))",
    "SELECT k FROM t UNION ALL SELECT k FROM other": (
        f"~Union(~Project({T}), ~Project(~Project(~SubqueryAlias(~Input Other))))"
    ),
    "WITH x AS (SELECT * FROM t) SELECT k FROM x": (
        f"~WithCTE(~CTERelationDef(~SubqueryAlias(~Project({T}))), ~Project(~SubqueryAlias(~CTERelationRef)))"
    ),
    "SELECT DISTINCT k FROM t": f"~Distinct(~Project({T}))",
    "SELECT k, explode(l) AS x FROM t": f"~Project(~Generate({T}))",
    "SELECT k, x FROM t LATERAL VIEW OUTER posexplode(l) AS i, x": f"~Project(~Generate({T}))",
    "SELECT * FROM t ORDER BY v LIMIT 3": f"~GlobalLimit(~LocalLimit(~Sort(~Project({T}))))",
    "SELECT k FROM t LEFT JOIN VALUES (1) AS o(x) ON v = x": f"~Project(~Join LeftOuter({T}, {ONE}))",
    "SELECT k FROM t WHERE v IN (SELECT x FROM VALUES (1) AS o(x))": f"~Project(~Filter(Project(Project({ONE})), {T}))",
    "SELECT k, (SELECT v + 1) AS w FROM t": f"~Project(Project(OneRowRelation), {T})",
    "SELECT k, x FROM t, LATERAL (SELECT v + 1 AS x)": (
        f"~Project(~LateralJoin Inner(SubqueryAlias(Project(OneRowRelation)), {T}))"
    ),
    "SELECT k, window(at, '1 hour', '10 minutes') AS w FROM t": f"~Project(~Filter(~Expand({T})))",
    "SELECT k, id FROM t, range(3)": f"~Project(~Join Inner({T}, Range))",
}


@pytest.mark.parametrize("sql", GOLDEN)
def test_a_plan_reads_as_ever(spark: SparkSession, stream: DataFrame, sql: str) -> None:
    plan = read(spark, sql)
    assert plan is not None
    assert summary(plan) == GOLDEN[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "SET spark.sql.ansi.enabled = false",
        "CREATE TABLE not_created (a INT) USING parquet",
        "CREATE OR REPLACE TEMPORARY VIEW not_created AS SELECT * FROM t",
        "BEGIN CREATE TABLE not_created (a INT) USING parquet; SELECT k FROM t; END",
        "EXPLAIN SELECT * FROM t",
    ],
)
def test_a_command_is_no_query_and_is_not_run(spark: SparkSession, stream: DataFrame, sql: str) -> None:
    assert read(spark, sql) is None
    assert not spark.catalog.tableExists("not_created")
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


ACCEPTED = [
    *(sql for sql in GOLDEN if "DISTINCT" not in sql and "LIMIT" not in sql),
    "SELECT k, inline(array(struct(v, v + 1))) FROM t",
    "SELECT k, stack(2, 1L, v) AS x FROM t",
    "SELECT k, json_tuple(k, 'a') AS x FROM t",
    "SELECT k, x FROM t, LATERAL explode(t.l) AS e(x)",
    "SELECT k, x FROM t JOIN LATERAL (SELECT x FROM VALUES (1), (2) AS o(x) WHERE x >= v) AS o ON o.x > 1",
    "SELECT k, x FROM t, LATERAL (SELECT y + v AS x FROM explode(t.l) AS e(y))",
    "SELECT k, name FROM t JOIN (VALUES ('a', 'Anna')) AS names(key, name) ON k = key",
    "SELECT k FROM VALUES (1) AS o(x) RIGHT JOIN t ON v = x",
    "SELECT k FROM t LEFT ANTI JOIN VALUES (1) AS o(x) ON v = x",
    "SELECT k FROM t WHERE v NOT IN (SELECT x + 1 FROM VALUES (1), (2) AS o(x))",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM VALUES (1) AS o(x) WHERE x > v)",
    "SELECT k, (SELECT name FROM VALUES (1, 'one') AS o(x, name) WHERE x = v) AS name FROM t",
    "SELECT k, x FROM t LEFT JOIN LATERAL (SELECT x FROM VALUES (1), (2) AS o(x) WHERE x >= v) ON true",
    "SELECT * FROM t UNPIVOT (value FOR name IN (v))",
    "SELECT * FROM t DISTRIBUTE BY k",
    "SELECT /*+ REPARTITION(3) */ k FROM t",
    "SELECT transform(l, x -> x + 1) AS l, current_timezone() AS zone FROM t",
    "SELECT aes_encrypt(k, '0000111122223333', 'ECB') AS s FROM t",
]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_what_takes_one_record_at_a_time_is_accepted_and_keeps_no_state(
    spark: SparkSession, stream: DataFrame, sql: str
) -> None:
    """Spark's optimiser, which turns some subqueries into aggregates over the stream, is asked too."""
    assert problem(spark, sql) == ""
    state: Any = spark._jsparkSession.sessionState()
    optimised = str(state.optimizer().execute(spark.sql(sql)._jdf.queryExecution().analyzed()).toString())
    assert "~Aggregate" not in optimised
    assert "~Distinct" not in optimised
    assert optimised.count("FileSource[") == 1 + sql.count("UNION")


FOUND = {
    "SELECT k, count(*) AS n FROM t GROUP BY k": "Aggregate",
    "SELECT sum(v) AS k FROM t": "Aggregate",
    "FROM t |> AGGREGATE count(*) GROUP BY k": "Aggregate",
    "SELECT * FROM t PIVOT (sum(v) FOR k IN ('a', 'b'))": "Aggregate",
    "SELECT DISTINCT k FROM t": "Distinct",
    "SELECT k FROM t UNION SELECT k FROM t": "Distinct",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM t": "Window",
    "SELECT * FROM t ORDER BY v": "Sort",
    "SELECT * FROM t SORT BY v": "Sort",
    "SELECT * FROM t LIMIT 1": "GlobalLimit",
    "SELECT * FROM t OFFSET 1": "Offset",
    "SELECT k FROM t INTERSECT SELECT k FROM t": "Intersect",
    "SELECT k FROM t EXCEPT SELECT k FROM t": "Except",
    "SELECT * FROM t TABLESAMPLE (50 PERCENT)": "Sample",
    "SELECT * FROM t WATERMARK at DELAY OF INTERVAL 1 HOUR": "EventTimeWatermark",
    "SELECT TRANSFORM(k) USING 'cat' AS (k) FROM t": "ScriptTransformation",
    "SELECT a.k FROM t a JOIN t b ON a.k = b.k": "Inner join of two inputs",
    "SELECT a.k FROM t a LEFT SEMI JOIN other b ON a.k = b.k": "LeftSemi join of two inputs",
    "WITH x AS (SELECT * FROM t) SELECT x.k FROM x JOIN x y ON x.k = y.k": "Inner join of two inputs",
    "SELECT x FROM VALUES (1) AS o(x) LEFT JOIN t ON v = x": "LeftOuter join",
    "SELECT x FROM VALUES (1) AS o(x) LEFT SEMI JOIN t ON v = x": "LeftSemi join",
    "SELECT x FROM VALUES (1) AS o(x) FULL JOIN t ON v = x": "FullOuter join",
    "SELECT k, (SELECT sum(y) FROM explode(t.l) AS e(y)) AS x FROM t": "Aggregate",
    "SELECT k, x FROM t LEFT JOIN LATERAL explode(t.l) AS e(x) ON true": "a subquery that depends on the record",
    "SELECT k, x FROM t JOIN LATERAL explode(t.l) AS e(x) ON true": "a subquery that depends on the record",
    "SELECT k, x FROM t, LATERAL (SELECT v + 1 AS x WHERE v > 3)": "a subquery that depends on the record",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM explode(t.l) AS n(a) WHERE a > 3)": (
        "a subquery that depends on the record"
    ),
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM VALUES (1) AS o(x) WHERE x IN "
    "(SELECT y FROM VALUES (2) AS p(y) WHERE y > x))": ("a subquery that depends on the record"),
    "SELECT k, x FROM t JOIN LATERAL (SELECT x + v AS x FROM VALUES (1) AS o(x)) ON true": (
        "a subquery that depends on the record"
    ),
    "SELECT k FROM t JOIN (SELECT x FROM VALUES (1), (2) AS o(x) LIMIT 1) ON v = x": "GlobalLimit",
    "SELECT k FROM t JOIN (SELECT first(x) AS x FROM VALUES (1), (2) AS o(x)) ON v = x": "Aggregate",
    "SELECT k, now() AS x FROM t": "now",
    "SELECT k FROM t WHERE at > CURRENT_TIMESTAMP": "current_timestamp",
    "SELECT k, date_add(CURRENT_DATE, 1) AS x FROM t": "current_date",
    "SELECT k, localtimestamp() AS x FROM t": "localtimestamp",
    "SELECT k, unix_timestamp() AS x FROM t": "current_timestamp",
    "SELECT k FROM t JOIN VALUES (now()) AS o(x) ON at = x": "now",
    "SELECT k FROM t WHERE at IN (SELECT now())": "now",
    "SELECT k, rand() AS x FROM t": "rand",
    "SELECT k, rand(7) AS x FROM t": "rand",
    "SELECT k, uuid() AS x FROM t": "uuid",
    "SELECT k, uniform(1, 5) AS x FROM t": "rand",
    "SELECT k, shuffle(l) AS x FROM t": "shuffle",
    "SELECT k, monotonically_increasing_id() AS x FROM t": "monotonically_increasing_id",
    "SELECT k, spark_partition_id() AS x FROM t": "spark_partition_id",
    "SELECT k, input_file_name() AS x FROM t": "input_file_name",
    "SELECT k, reflect('java.util.UUID', 'randomUUID') AS x FROM t": "reflect",
    "SELECT k, aes_encrypt(k, '0000111122223333') AS x FROM t": "aes_encrypt",
    "SELECT k FROM t WHERE v > (SELECT rand())": "rand",
    "WITH x AS (SELECT *, uuid() AS u FROM t) SELECT u FROM x": "uuid",
}


@pytest.mark.parametrize("sql", FOUND)
def test_what_depends_on_the_epoch_the_mode_or_the_run_is_refused(
    spark: SparkSession, stream: DataFrame, sql: str
) -> None:
    assert problem(spark, sql) == FOUND[sql]


@pytest.mark.parametrize(
    "sql", [sql for sql, found in FOUND.items() if found in ("now", "current_date", "rand", "uuid")]
)
def test_only_clocks_may_be_allowed(spark: SparkSession, stream: DataFrame, sql: str) -> None:
    found = FOUND[sql]
    assert problem(spark, sql, allows_clock=True) == ("" if found in ("now", "current_date") else found)


def test_tables_and_files_are_named_wherever_they_are_read(
    spark: SparkSession, stream: DataFrame, table: str, folder: Path
) -> None:
    text = write_text(folder / "words", "a.txt", "a\n")
    catalog = f"spark_catalog.default.{table}"
    spark.range(1).createOrReplaceTempView("of_the_session")
    spark.range(1).createOrReplaceGlobalTempView("t")
    for sql, name in {
        f"SELECT t.k FROM t JOIN {table} ON t.k = {table}.k": catalog,
        f"SELECT k FROM t JOIN (SELECT DISTINCT x FROM {table}) ON v = x": catalog,
        f"WITH x AS (SELECT x FROM {table}) SELECT k FROM t JOIN x ON v = x": catalog,
        f"SELECT k, (SELECT max(x) FROM {table}) AS x FROM t": catalog,
        f"SELECT k FROM t UNION ALL SELECT k FROM {table}": catalog,
        f"SELECT * FROM {table}": catalog,
        f"SELECT * FROM csv.`{text}`": f"file:{text}",
        f"SELECT k FROM t WHERE k NOT IN (SELECT value FROM text.`{text}`)": f"file:{text}",
        f"SELECT k FROM t JOIN parquet.`{folder / 'table'}` p USING (k)": f"file:{folder / 'table'}",
        "SELECT k FROM t JOIN of_the_session ON id = v": "of_the_session",
        "SELECT * FROM global_temp.t": "global_temp.t",
        "SELECT k FROM t JOIN global_temp.T AS g ON g.id = v": "global_temp.t",
    }.items():
        assert problem(spark, sql) == name, sql
    spark.catalog.dropTempView("of_the_session")
    spark.catalog.dropGlobalTempView("t")


def test_a_global_view_with_the_name_of_a_dimension_is_another_table(spark: SparkSession, stream: DataFrame) -> None:
    spark.range(1).createOrReplaceGlobalTempView("d")
    with views(spark, {"d": spark.range(1)}):
        for view, kind in {"d": "Dimension", "global_temp.d": "View"}.items():
            plan = read_query(spark, f"SELECT k FROM t JOIN {view} x ON id = v", inputs=["t"], dimensions=["d"]).node
            assert plan is not None
            assert kind in {node.kind for node in nodes_of(plan)}, view
    spark.catalog.dropGlobalTempView("d")


def test_a_view_of_the_session_that_says_stream_stays_out_of_subqueries(spark: SparkSession, stream: DataFrame) -> None:
    spark.sql("CREATE TEMPORARY VIEW of_a_stream AS SELECT * FROM STREAM t")
    plan = read(spark, "SELECT k FROM t WHERE EXISTS (SELECT * FROM other AS o WHERE o.k = t.k)")
    spark.catalog.dropTempView("of_a_stream")
    assert plan is not None
    assert "LeftSemi" in {node.name for node in nodes_of(plan)}


def test_a_frame_is_read_down_to_the_one_that_it_was_made_of(spark: SparkSession, stream: DataFrame) -> None:
    before = spark.sql("WITH x AS (SELECT k, explode(l) AS v FROM t) SELECT * FROM x")
    assert summary(read_frame(before.selectExpr("v + 1 AS a"), until=before)) == "~Project(~Input)"
    assert summary(read_frame(before.selectExpr("explode(array(v)) AS a"), until=before)) == (
        "~Project(~Generate(~Input))"
    )
    assert column_ids(before.selectExpr("v", "k")) == column_ids(before)
    assert column_ids(before.selectExpr("k", "v + 1 AS v"))["v"] != column_ids(before)["v"]


def test_what_is_the_same_in_every_run_is_not_read(spark: SparkSession, stream: DataFrame) -> None:
    plain = read(spark, "SELECT k, v + 1 AS w FROM t")
    assert plain is not None
    assert plain.expressions == ()
    generated = read(spark, "SELECT explode(l) FROM t")
    assert generated is not None
    assert [e.name for node in nodes_of(generated) for e in node.expressions] == ["explode"]
    clock = read(spark, "SELECT k, date(now()) AS d, v + 1 AS w FROM t")
    assert clock is not None
    assert [len(e.children) for e in clock.expressions] == [0, 1, 0]


WORDS = (
    *("~Sort x", "~Aggregate", "~Generate", "~Union", "~Join Inner", "View (`t`, ", "StreamingRelation"),
    *("now()", "rand()", "current_date", "== Analyzed Logical Plan ==", "scalar-subquery#1", "Relation [a#1] csv"),
)
TEXTS = (
    "SELECT k, {} AS s FROM t",
    "SELECT k FROM t WHERE k <> {}",
    "SELECT DISTINCT {} AS s, k FROM t",
)


@settings(max_examples=random_cases(13), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from(TEXTS), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_the_words_of_a_literal_do_not_matter(
    spark: SparkSession, stream: DataFrame, text: str, words: list[str]
) -> None:
    assert problem(spark, text.format(f"'{' '.join(words)}'")) == problem(spark, text.format("'x'"))


def test_columns_have_their_names_and_ids_whatever_they_are_called(spark: SparkSession) -> None:
    names = ["a", "A L", "v#1", "v#1L", "x,y", "é\n#", "#", "", "a`b", "AS c#2L"]
    typed = [
        f"CAST({n} AS {'bigint' if n % 2 else 'int'}) AS `{name.replace('`', '``')}`" for n, name in enumerate(names)
    ]
    plan = analysed(spark.range(1).selectExpr(*typed))
    columns, found = plan.output(), columns_of(plan.output())
    assert [name for name, _ in found] == names
    each = [columns.apply(number) for number in range(len(names))]
    assert [number for _, number in found] == [column.exprId().id() for column in each] == list(map(id_of, each))
    assert columns_of(analysed(spark.createDataFrame([()], "struct<>")).output()) == []


def test_a_column_with_a_watermark_has_its_name_and_id(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "8 seconds")
    assert [name for name, _ in columns_of(analysed(rows).output())] == ["timestamp", "value"]
