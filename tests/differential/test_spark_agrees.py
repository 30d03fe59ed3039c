"""Spark's own batch groupBy as a second opinion: the oracle's rules are Spark's, and so are the types of an output."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.job import Source
from tests.differential.cases import AGGREGATES, KINDS, Case, cases, parquet_piece
from tests.differential.oracle import Call, aggregate, differences, keyed
from tests.differential.stories import Story, play
from tests.harness import SPARK_CASES

pytestmark = pytest.mark.spark

#: more types of argument than the random cases have: name -> Spark's type
ARGUMENTS = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(30,5)": pa.decimal128(30, 5),
    "decimal(38,18)": pa.decimal128(38, 18),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NUMBERS = [name for name in ARGUMENTS if name.endswith("int") or name.startswith(("decimal", "float", "double"))]


@settings(SPARK_CASES, max_examples=12)
@given(case=cases(modes=["batch"]))
def test_the_oracle_says_what_spark_says(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    folder = tmp_path_factory.mktemp("case")
    for piece in case.story.pieces:
        piece(folder)
    frame = spark.read.schema(case.ddl).parquet(str(folder))
    found = keyed(_grouped(frame, case).toArrow().to_pylist(), case.key_by)
    calls = {name: call for name, (_, call) in AGGREGATES.items() if name in case.names}
    assert not differences(aggregate(case.rows, case.key_by, calls, event_time="at"), found)


def test_results_have_the_types_that_spark_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    columns = {f"a{i}": name for i, name in enumerate(ARGUMENTS)}
    calls = {
        f"{function}_{column}": f"{function}({column})"
        for column, name in columns.items()
        for function in ("count", "min", "max", "first", "last", *(("sum", "avg", "stddev") if name in NUMBERS else ()))
    }
    keys = {f"k{i}": kind for i, kind in enumerate(KINDS)}
    fields = [*(pa.field(k, kind.arrow) for k, kind in keys.items()), pa.field("at", pa.timestamp("us", "UTC"))]
    schema = pa.schema([*fields, *(pa.field(c, ARGUMENTS[name]) for c, name in columns.items())])
    ddl = ", ".join([*(f"{k} {kind.sql}" for k, kind in keys.items()), "at timestamp", *map(" ".join, columns.items())])
    at = pa.scalar(0, pa.int64()).cast(pa.timestamp("us", "UTC")).as_py()
    rows: list[dict[str, Any]] = [{**dict.fromkeys(schema.names), "at": at}]
    story = Story([parquet_piece("a", rows, schema)], 1, partial(Source.parquet, schema=ddl, event_time="at"))
    outcome = play(story, "batch", lambda job: job.key_by(*keys).aggregate(calls), spark, tmp_path)
    frame = spark.read.schema(ddl).parquet(str(tmp_path / "in"))
    wanted = frame.groupBy(*keys).agg(*(F.expr(call).alias(name) for name, call in calls.items()))
    found = spark.read.parquet(str(outcome.out)).drop("_op", "_epoch")
    assert {f.name: f.dataType for f in found.schema} == {f.name: f.dataType for f in wanted.schema}


def _grouped(frame: DataFrame, case: Case) -> DataFrame:
    results = [_spark_call(*AGGREGATES[name]).alias(name) for name in AGGREGATES if name in case.names]
    return frame.groupBy(*case.key_by).agg(*results)


def _spark_call(sql: str, call: Call) -> Any:
    if call.function in {"first", "last"}:  # by (event time, value); in a struct, NULL is the smallest for Spark too
        extreme = "min" if call.function == "first" else "max"
        return F.expr(f"{extreme}(struct(at, {call.argument})).{call.argument}")
    return F.expr(sql)
