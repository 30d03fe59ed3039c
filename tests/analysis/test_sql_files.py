"""SQL files are in Spark's dialect: its parser reads each statement as config/sql_statements.py does.

A statement that both read has the same names, columns, options and streams; what Spark refuses as no SQL at all, such
as a query that does not parse, is left to the analysis of the sql step.
"""

import re
from typing import Any

import pytest
from py4j.java_gateway import get_field
from pyspark.sql import SparkSession

from mixedmode.config.sql_statements import Flow, Setting, Table, View, read_statement
from mixedmode.config.sql_tokens import statements_of, text_of
from mixedmode.durations import parse_duration_ms

pytestmark = pytest.mark.spark

FILE = r"""
SET parallelism = 3;
SET `execution.runtime-mode` = mixed;
SET execution.checkpointing.dir = run/checkpoints;
CREATE TEMPORARY VIEW orders (id BIGINT, `a b` DECIMAL(10,2) COMMENT 'x', at TIMESTAMP) USING json
  OPTIONS (path 'data/orders', `event-time` 'at', 'watermark.out-of-orderness' = '10m', header true, sep '\t;');
CREATE OR REPLACE TEMP VIEW orders USING Parquet OPTIONS (path "it's", schema.x r'\d');
CREATE TEMPORARY VIEW orders USING parquet;
CREATE TEMPORARY VIEW large COMMENT 'x' AS SELECT * FROM STREAM orders WHERE amount > 9;
CREATE TEMPORARY VIEW x AS
  WITH c AS (SELECT 1 AS k) SELECT * FROM STREAM(orders) o JOIN c USING (k) JOIN d ON k;
CREATE STREAMING TABLE t TBLPROPERTIES ('path' = 'run/t', key 'a, b') AS SELECT a FROM STREAM orders;
CREATE STREAMING TABLE IF NOT EXISTS t USING delta PARTITIONED BY (a, b) COMMENT 'x';
CREATE STREAMING TABLE t AS
  SELECT window.start, count(*) FROM STREAM orders WATERMARK at DELAY OF INTERVAL 10 MINUTES
  GROUP BY window(at, '1 hour');
CREATE STREAMING TABLE t AS
  SELECT * FROM STREAM(a) WATERMARK f(ts) AS at DELAY OF INTERVAL '1' HOUR 30 MINUTES x
  LEFT JOIN STREAM b WATERMARK at DELAY OF INTERVAL 2 DAYS y ON x.k = y.k, c LATERAL VIEW explode(l) e AS v;
CREATE STREAMING TABLE t AS SELECT extract(YEAR FROM at), a IS DISTINCT FROM b FROM STREAM orders;
CREATE STREAMING TABLE t AS
  SELECT * FROM STREAM a UNION ALL -- FROM STREAM d
  (SELECT * FROM (SELECT * FROM STREAM b) WHERE k IN (SELECT k FROM c));
CREATE FLOW f COMMENT 'x' AS INSERT INTO t BY NAME SELECT * FROM STREAM orders;
CREATE FLOW f AS INSERT INTO TABLE t BY NAME SELECT * FROM STREAM orders;
"""
STATEMENTS = [text_of(FILE, statement.tokens) for statement in statements_of(FILE)]


def nodes_of(plan: Any) -> list[Any]:
    """The nodes of a parsed plan, with those of its subqueries, as Spark collects them."""
    children = plan.children()
    inner = plan.subqueries()
    below = [children.apply(at) for at in range(children.size())] + [inner.apply(at) for at in range(inner.size())]
    if plan.getClass().getSimpleName() == "UnresolvedWith":
        below += [plan.cteRelations().apply(at)._2() for at in range(plan.cteRelations().size())]
    return [plan, *(node for one in below for node in nodes_of(one))]


def names_read(query: Any) -> tuple[set[str], set[str]]:
    """The names of (all relations, streams) in a parsed query, without those of WITH."""
    nodes = nodes_of(query)
    kinds = [(node.getClass().getSimpleName(), node) for node in nodes]
    relations = {node.tableName() for kind, node in kinds if kind == "UnresolvedRelation"}
    streams = {node.children().apply(0).tableName() for kind, node in kinds if kind == "NamedStreamingRelation"}
    defined = set[str]()
    for kind, node in kinds:
        if kind == "UnresolvedWith":
            defined |= {node.cteRelations().apply(at)._1() for at in range(node.cteRelations().size())}
    return relations - defined, streams


def delays_ms(query: Any) -> list[int]:
    """The delays of the watermarks in a parsed query, in milliseconds."""
    nodes = [node for node in nodes_of(query) if node.getClass().getSimpleName() == "UnresolvedEventTimeWatermark"]
    delays = [node.delay() for node in nodes]
    return [get_field(one, "days") * 86_400_000 + get_field(one, "microseconds") // 1000 for one in delays]


def options_of(options: Any) -> dict[str, str]:
    pairs = options.toList()
    return {pairs.apply(at)._1(): pairs.apply(at)._2() for at in range(pairs.size())}


@pytest.mark.parametrize("text", STATEMENTS)
def test_spark_parses_a_statement_as_it_is_read_here(spark: SparkSession, text: str) -> None:
    (statement,) = statements_of(text)
    ours = read_statement(text, statement)
    parsed: Any = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    kind = parsed.getClass().getSimpleName()
    query = None
    match ours:
        case Setting():
            assert kind == "SetCommand"
            assert (ours.key, ours.value) == (parsed.kv().get()._1(), parsed.kv().get()._2().get())
        case View():
            assert kind == "CreateTempViewUsing"
            assert (ours.name, ours.format) == (parsed.tableIdent().table(), parsed.provider().lower())
            assert {one.key: one.value for one in ours.options} == options_of(parsed.options())
            columns = parsed.userSpecifiedSchema()
            assert (ours.columns is None) == columns.isEmpty()
            if ours.columns is not None:
                types = spark.sparkContext._jvm.org.apache.spark.sql.types.StructType  # type: ignore[union-attr]
                assert types.fromDDL(ours.columns).equals(columns.get())
        case Table(format=None):
            assert (kind, ours.name) == ("CreateViewCommand", parsed.name().table())
            query = parsed.plan()
        case Table():
            assert kind == ("CreateStreamingTable" if ours.query is None else "CreateStreamingTableAsSelect")
            assert ours.name in parsed.toString()
            spec = parsed.tableSpec()
            assert {one.key: one.value for one in ours.properties} == options_of(spec.properties())
            assert ours.format == (spec.provider().get() if spec.provider().isDefined() else "parquet")
            assert list(ours.partitions) == re.findall(r"identity\((\w+)\)", parsed.partitioning().mkString(" "))
            query = None if ours.query is None else parsed.query()
        case Flow():
            assert kind == "CreateFlowCommand"
            insert = parsed.flowOperation()
            assert (ours.name, ours.table) == (parsed.name().nameParts().mkString("."), insert.table().tableName())
            assert insert.byName()
            query = insert.query()
        case _:
            pytest.fail(f"not compared: {ours}")
    written = getattr(ours, "query", None)
    assert (query is None) == (written is None)
    if query is None or written is None:
        return
    relations, streams = names_read(query)
    assert {read.name for read in written.reads} - relations <= {"at", "b"}, "only names after FROM in calls"
    assert relations <= {read.name for read in written.reads}
    assert {read.name for read in written.reads if read.is_stream} == streams
    ours_ms = [parse_duration_ms(read.event_time.delay) for read in written.reads if read.event_time is not None]
    assert sorted(ours_ms) == sorted(delays_ms(query))
