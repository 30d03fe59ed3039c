"""Spark's own batch groupBy as a second opinion: the oracle's rules are Spark's, and so are the types of an output."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.job import Source
from tests.differential.cases import AGGREGATES, KINDS, Case, cases, parquet_piece
from tests.differential.oracle import Approx, Call, aggregate, differences, keyed
from tests.differential.stories import Story, play
from tests.harness import SPARK_CASES, output_rows

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
MEASURES = [*NUMBERS, "date", "timestamp", "timestamp_ntz"]
#: calls by the type of their argument; Spark's lists have no limit, so 9 is cut off there
ANY_TYPE = (
    *(
        "count({})",
        "min({})",
        "max({})",
        "first({})",
        "last({})",
        "count(distinct {})",
        "approx_count_distinct({})",
        "mode({})",
    ),
    *("min_by({}, at)", "max_by({}, at)", "collect_list({}, 9)", "collect_set({}, 9)"),
)
PAIRS = (
    *("corr", "covar_pop", "covar_samp", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
    *("regr_slope", "regr_intercept", "regr_r2"),
)
OF_NUMBERS = (
    *("sum({})", "avg({})", "sum(distinct {})", "avg(distinct {})", "stddev({})", "median({})"),
    *("percentile({}, 0.3)", "skewness({})", "kurtosis({})"),
    *(f"{name}({{0}}, {{0}})" for name in PAIRS),
)
OF_WHOLE_NUMBERS = ("bit_and({})", "bit_or({})", "bit_xor({})")
OF_MEASURES = ("approx_percentile({}, 0.5)",)


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
    calls = {name: AGGREGATES[name][1] for name in _in_spark(case)}
    assert not differences(aggregate(case.rows, case.key_by, calls, event_time="at"), found)


def test_results_have_the_types_that_spark_gives_them(spark: SparkSession, tmp_path: Path) -> None:
    columns = {f"a{i}": name for i, name in enumerate(ARGUMENTS)}
    calls = {
        f"{column}_{number}": call.format(column)
        for column, name in columns.items()
        for number, call in enumerate(
            ANY_TYPE
            + OF_NUMBERS * (name in NUMBERS)
            + OF_WHOLE_NUMBERS * name.endswith("int")
            + OF_MEASURES * (name in MEASURES)
        )
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
    wanted = frame.groupBy(*keys).agg(*(F.expr(call.replace(", 9)", ")")).alias(name) for name, call in calls.items()))
    found = spark.read.parquet(str(outcome.out)).drop("_op", "_epoch")
    assert {f.name: f.dataType.simpleString() for f in found.schema} == {
        f.name: f.dataType.simpleString() for f in wanted.schema
    }, "but for whether an array may hold NULL, which Parquet does not say"


#: statistics as this program and Spark both write them, over y (a double) and x (an int)
STATISTICS = {
    **{f"of_{name}": f"{name}(y, x)" for name in PAIRS},
    **{f"some_{name}": f"{name}(y, x) filter (where b)" for name in PAIRS},
    **{f"{name}_{c}": f"{name}({c})" for name in ("median", "skewness", "kurtosis", "variance", "std") for c in "yx"},
    "third": "percentile(y, 0.3)",
    "some_median": "median(y) filter (where b)",
    **{name: f"{name}(x)" for name in ("bit_and", "bit_or", "bit_xor")},
    "some_bits": "bit_xor(x) filter (where b)",
    "trues": "count_if(b)",
    **{
        f"disc_{c}_{order}_{p}": f"percentile_disc(0.{p}) within group (order by {c} {order}) filter (where y < 9 or b)"
        for c in "yx"
        for order in ("asc", "desc")
        for p in (0, 3, 55)
    },
    "most": "mode(x, true)",
    "some_most": "mode() within group (order by y desc) filter (where b)",
    "sum_once": "sum(distinct x)",
    "sum_once_y": "sum(distinct y)",
    "some_means_once": "avg(distinct y) filter (where b)",
    **{name: f"{name}(b)" for name in ("every", "some", "any")},
    "mean": "mean(y)",
}


def test_statistics_of_random_data_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    schema = pa.schema([("k", pa.int32()), ("y", pa.float64()), ("x", pa.int32()), ("b", pa.bool_())])
    rows: list[dict[str, Any]] = [
        {"k": k, "y": None if y < -2 else round(y, 1), "x": None if x == 0 else x, "b": None if x == 1 else y > 0}
        for k, y, x in zip(
            rng.integers(0, 40, 3000).tolist(),
            rng.normal(0, 2, 3000).tolist(),
            rng.integers(0, 9, 3000).tolist(),
            strict=True,
        )
    ]
    rows += [{"k": 100, "y": 0.1, "x": x, "b": True} for x in range(3)]  # y is level
    rows += [{"k": 101, "y": 0.1 * y, "x": 7, "b": True} for y in range(3)]  # x is level
    rows += [{"k": 102, "y": 1.5, "x": 3, "b": False}, {"k": 103, "y": None, "x": 3, "b": None}]
    # of level x, Spark's covariance is NaN, too
    for k, values in enumerate([[math.nan], [1.5, math.nan, 2.0], [math.inf], [math.inf, 1.0], [-math.inf, math.inf]]):
        rows += [{"k": 200 + k, "y": y, "x": 7, "b": True} for y in values]
    ddl = "k int, y double, x int, b boolean"
    pieces = [parquet_piece(str(i), rows[i::4], schema) for i in range(4)]
    story = Story(pieces, 2, partial(Source.parquet, schema=ddl))
    outcome = play(story, "mixed", lambda job: job.key_by("k").aggregate(STATISTICS), spark, tmp_path)
    frame = spark.read.schema(ddl).parquet(str(tmp_path / "in"))
    in_spark = frame.groupBy("k").agg(*(F.expr(call).alias(name) for name, call in STATISTICS.items()))
    found, wanted = keyed(output_rows(outcome.out), ["k"]), keyed(in_spark.toArrow().to_pylist(), ["k"])
    rounded = {
        key: {name: Approx(one, 1e-9) if isinstance(one, float) else one for name, one in row.items()}
        for key, row in wanted.items()
    }
    assert not differences(rounded, found)


#: arguments that cannot be computed for the rows that the filter leaves out, by who computes them
GUARDED = {
    "tasks": {
        "total": "sum(12 / n) filter (where n <> 0)",
        "comment": "count(12 div CAST(n AS long)) filter (where n <> 0 -- a comment\n)",
        "latest": "max_by(s, 12 / n) filter (where n <> 0)",
        "pairs": "regr_count(12 / n, n) filter (where n <> 0)",
        "all": "sum(n)",
        "true": "count(n > 1) filter (where n > 1)",
    },
    "Spark": {
        "total": "sum(CAST(s AS int)) filter (where s rlike '^[0-9]+$')",
        "greatest": "max(element_at(array(n, 7), n)) filter (where n IN (1, 2))",
    },
}


@pytest.mark.parametrize("computed_by", GUARDED)
def test_an_argument_is_computed_only_for_rows_that_pass_the_filter(
    spark: SparkSession, tmp_path: Path, computed_by: str
) -> None:
    schema = pa.schema([("k", pa.int32()), ("n", pa.int32()), ("s", pa.string())])
    values = [(0, "a"), (1, "5"), (None, None), (3, ""), (2, "7"), (-4, None), (2, "08")]
    rows: list[dict[str, Any]] = [{"k": i % 2, "n": n, "s": s} for i, (n, s) in enumerate(values * 3)]
    rows += [{"k": 2, "n": 0, "s": "none"}]
    ddl, calls = "k int, n int, s string", GUARDED[computed_by]
    pieces = [parquet_piece(str(i), rows[i::3], schema) for i in range(3)]
    story = Story(pieces, 2, partial(Source.parquet, schema=ddl))
    outcome = play(story, "mixed", lambda job: job.key_by("k").aggregate(calls), spark, tmp_path)
    frame = spark.read.schema(ddl).parquet(str(tmp_path / "in"))
    in_spark = frame.groupBy("k").agg(*(F.expr(call).alias(name) for name, call in calls.items()))
    assert not differences(keyed(in_spark.toArrow().to_pylist(), ["k"]), keyed(output_rows(outcome.out), ["k"]))


#: percentiles that Spark does not answer exactly: NaN upsets them, and it rounds integers beyond 2**53 to doubles
_INEXACT_IN_SPARK = {"half_d", "half_i"}


def _in_spark(case: Case) -> list[str]:
    """The calls that Spark answers exactly too; at least one.

    Spark's covariance of infinite values is NaN or infinite, as its rows happen to come.
    """
    left_out = {"approx_count_distinct"}
    if any(row["d"] is not None and math.isinf(row["d"]) for row in case.rows):
        left_out.add("covar_pop")
    return [
        name for name in case.names if AGGREGATES[name][1].function not in left_out and name not in _INEXACT_IN_SPARK
    ] or ["all"]


def _grouped(frame: DataFrame, case: Case) -> DataFrame:
    results = [_spark_call(*AGGREGATES[name]).alias(name) for name in _in_spark(case)]
    return frame.groupBy(*case.key_by).agg(*results)


def _spark_call(sql: str, call: Call) -> Any:
    """The call in Spark's words: it has no ties settled by value, no order in a list, and no limit."""
    where = "true" if call.where is None else call.where.sql
    x, n = call.argument, int(call.number)
    match call.function:
        case "percentile_disc":
            return F.expr(f"percentile_disc({call.number}) WITHIN GROUP (ORDER BY {x}) filter (where {where})")
        case "mode":
            return F.expr(f"mode({x}, true) filter (where {where})")
        case "first" | "last":  # by (event time, value); in a struct, NULL is the smallest for Spark too
            extreme = "min" if call.function == "first" else "max"
            return F.expr(f"({extreme}(struct(at, {x})) filter (where {where})).{x}")
        case "min_by" | "max_by":
            where = f"({where}) AND {call.by} IS NOT NULL"
            return F.expr(f"({call.function[:3]}(struct({call.by}, {x})) filter (where {where})).{x}")
        case "collect_list":
            timed = f"collect_list(struct(at, {x})) filter (where ({where}) AND {x} IS NOT NULL)"
            return F.expr(f"transform(slice(sort_array({timed}), 1, {n}), one -> one.{x})")
        case "collect_set":
            return F.expr(f"slice(sort_array(array_distinct(collect_set({x}) filter (where {where}))), 1, {n})")
        case _:
            return F.expr(sql)
