"""Conditions of joins: what Spark's analysis makes of them, and what is refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.join import IntervalJoinOperator
from tests.harness import SPARK
from tests.local_engine import CONDITIONS

SCHEMA = (
    "k string, amount bigint, v bigint, n bigint, t timestamp, price decimal(10,2), name string, tags map<string,int>"
)


def operator_of(spark: SparkSession, folder: Path, condition: str) -> IntervalJoinOperator:
    sources = {}
    for name in ("orders", "payments"):
        (folder / name).mkdir(exist_ok=True)
        sources[name] = Source.parquet(folder / name, schema=SCHEMA, event_time="t")
    job = Job("joined", sources=sources, mode="mixed", checkpoint_dir=folder / "checkpoints", spark=SPARK)
    pairs = job.source("orders").interval_join(
        job.source("payments"), on="k", within=("0s", "1h"), type="left", select=["left.k"], condition=condition
    )
    complete = job.output("o", pairs, Sink.parquet(folder / "out"))
    (stage,) = analyse(spark, complete.spec, complete.where).plan.stages
    assert isinstance(stage.operator, IntervalJoinOperator)
    return stage.operator


def test_the_local_engine_has_the_conditions_that_the_analysis_makes(spark: SparkSession, tmp_path: Path) -> None:
    for text, query in CONDITIONS.items():
        found = operator_of(spark, tmp_path, text).condition
        assert found is not None
        assert found.query == query, text


def test_a_condition_adds_the_columns_that_it_reads_to_the_sides(spark: SparkSession, tmp_path: Path) -> None:
    operator = operator_of(spark, tmp_path, "left.price * 2 > right.price -- twice\n AND right.name LIKE 'a%'")
    assert [[field.name for field in side] for side in operator.layout.sides] == [["k", "price"], ["price", "name"]]


NOT_ON_THE_LIST = r"^steps\[0\]\.join\.condition: a join computes its condition itself, .*this is not on the list"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("upper(left.name) = right.name", NOT_ON_THE_LIST + r": only Spark computes upper\(left\.name\)"),
        ("left.v + right.v", "condition: a condition is true or false, and this is neither.*type=bigint"),
        ("1 = 1", "condition: the condition depends on no column"),
        ("left.v < right.w", "condition: .*right.*w"),
        ("v < right.n", "condition: .*[Aa]mbiguous"),
        ("rand() < left.price", "condition: .*rand"),
        ("left.v < max(right.v)", "condition: "),
        ("left.v IN (SELECT 1)", "condition: "),
        ("left.tags['a'] = right.n", NOT_ON_THE_LIST),
    ],
)
def test_a_condition_that_cannot_be_computed_is_refused(
    spark: SparkSession, tmp_path: Path, condition: str, message: str
) -> None:
    with pytest.raises(InvalidJobError, match=message):
        operator_of(spark, tmp_path, condition)
