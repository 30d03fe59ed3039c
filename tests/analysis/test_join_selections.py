"""The expressions in the `select` of a join mean what they mean in a SELECT over a join of Spark, or are refused."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config import JoinStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.join import LEFT
from mixedmode.plan.join_operators import JoinedInput
from mixedmode.plan.joins import JOINED, selection
from mixedmode.spark.temporary_views import views
from tests.harness import SPARK

pytestmark = pytest.mark.spark

LEFT_SCHEMA, RIGHT_SCHEMA = "k int, v int, name string, at timestamp", "k int, w int, z int, q int, at timestamp"


def input_of(spark: SparkSession, alias: str, ddl: str) -> JoinedInput:
    schema = spark.createDataFrame([], ddl).toArrow().schema
    return JoinedInput(alias, tuple(pa.field(field.name, field.type) for field in schema), "at", ())


SELECTS = (
    ["o.k", "v + w AS total"],
    ["o.v AS w", "w + 1 AS next"],  # the w of the right
    ["o.v AS a", "a + 1 AS b", "b + w AS c"],
    ["o.*", "q.q + q.w AS sum", "z - v AS less"],
    ["q.z AS v", "V + Z AS both", "o.v AS old"],
    ["o.k", "to_json(struct(q.*)) AS j", "to_json(struct(o.v, o.name)) AS i"],
    ["q.w AS name", "concat(name, '(*, *) left.v', w) AS text"],
    ["o.at AS z", "year(o.at) + z AS y", "q.at AS at"],
    ["o.k", "true AS flag", "1 AS one", "NULL AS none"],
    ["true AS flag"],  # the rows of the join have a column nevertheless
    ["o.k AS w", "`w` + q.`w` AS sum", "o.k * 2 AS k2"],
)


@pytest.mark.parametrize("select", SELECTS)
def test_expressions_read_the_columns_that_sql_reads(spark: SparkSession, select: Sequence[str]) -> None:
    inputs = input_of(spark, "o", LEFT_SCHEMA), input_of(spark, "q", RIGHT_SCHEMA)
    step = JoinStep.model_validate({"join": {"left": "l AS o", "right": "r AS q", "on": "k", "select": select}})
    found = selection(step, inputs, lambda *_: "select")
    assert found.columns
    left = spark.sql("SELECT 1 AS k, 20 AS v, 'n' AS name, TIMESTAMP '2001-01-01' AS at").alias("o")
    right = spark.sql("SELECT 1 AS k, 300 AS w, 4000 AS z, 50000 AS q, TIMESTAMP '2002-01-01' AS at").alias("q")
    pairs = left.crossJoin(right)
    columns = [f"{'o' if side == LEFT else 'q'}.{field.name} AS `{name}`" for name, side, field in found.columns]
    assert found.sql is not None
    with views(spark, {JOINED: pairs.selectExpr(*columns)}):
        assert spark.sql(found.sql).toArrow() == pairs.selectExpr(*select).toArrow()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("to_json(right) AS j", "`right` cannot be resolved"),
        ("right IS NULL AS none", "`right` cannot be resolved"),
        ("k + 1 AS j", "`k` is ambiguous"),
        ("left.w AS j", "left has no column w"),
        ("left.w + 1 AS j", "`left`.`w` cannot be resolved"),
        ("to_json(struct(*)) AS j", "an expression cannot take all columns of both inputs"),
        ("to_json(struct('*', 1, *)) AS j", "an expression cannot take all columns of both inputs"),
        ("_left_v + left.v AS j", "`_left_v` cannot be resolved"),
    ],
)
def test_what_sql_does_not_know_is_refused(spark: SparkSession, tmp_path: Path, text: str, message: str) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    job = Job(
        "joined",
        sources={
            "a": Source.parquet(tmp_path / "a", schema=LEFT_SCHEMA),
            "b": Source.parquet(tmp_path / "b", schema=RIGHT_SCHEMA),
        },
        checkpoint_dir=tmp_path / "checkpoints",
        spark=SPARK,
    )
    rows = job.source("a").join(job.source("b"), on="k", select=["left.v AS kept", text])
    job = job.output("o", rows, Sink.parquet(tmp_path / "out"))
    with pytest.raises(InvalidJobError, match=rf"join\.select: .*{message}"):
        analyse(spark, job.spec, job.where)


def test_each_wrong_expression_is_told_with_its_own_text_and_what_reads_it_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    sources = {
        "a": Source.parquet(tmp_path / "a", schema=LEFT_SCHEMA),
        "b": Source.parquet(tmp_path / "b", schema=RIGHT_SCHEMA),
    }
    job = Job("joined", sources=sources, checkpoint_dir=tmp_path / "checkpoints", spark=SPARK)
    select = ["left.v AS kept", "v - AS a", "w descc AS b", "a + kept AS c", "upper(nam) AS d"]
    rows = job.source("a").join(job.source("b"), on="k", select=select)
    job = job.output("o", rows, Sink.parquet(tmp_path / "out"))
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, job.spec, job.where)
    told = [line.partition("join.select: ")[2] for line in str(caught.value).splitlines()]
    assert [text.partition(": ")[0] for text in told] == ["v -", "w descc", "upper(nam)"]
    assert "Syntax error at or near end of input" in told[0]
    assert "the word after this expression would be a name" in told[1]
    assert "AS" not in str(caught.value)
