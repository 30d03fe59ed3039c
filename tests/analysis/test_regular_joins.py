"""Spark's types and expressions in joins without a bound in time: refusals, and keys of different types."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.operators.interface import Changelog
from mixedmode.plan.job_plan import JobPlan
from tests.harness import SPARK

Build = Callable[[Stream, Stream], Stream]


def plan_of(spark: SparkSession, folder: Path, build: Build) -> JobPlan:
    sources = {}
    for name, schema in (("orders", "k int, amount bigint"), ("customers", "k bigint, age int, tags map<string,int>")):
        (folder / name).mkdir()
        sources[name] = Source.parquet(folder / name, schema=schema)
    job = Job("joined", sources=sources, mode="mixed", checkpoint_dir=folder / "checkpoints", spark=SPARK)
    complete = job.output("o", build(job.source("orders"), job.source("customers")), Sink.parquet(folder / "out"))
    return analyse(spark, complete.spec, complete.where).plan


def test_keys_are_compared_in_the_type_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, lambda a, b: a.join(b, on="k", select=["left.*", "right.age + 1 AS next"]))
    (stage,) = plan.stages
    assert [field.type for field in stage.key_fields] == [pa.int64()]
    assert stage.emitted.changelog is Changelog.APPEND
    assert [field.name for field in plan.results["o"].fields] == ["k", "amount", "next"]
    assert plan.results["o"].key_columns == ()


@pytest.mark.parametrize("name", [None, "paid"])
def test_expressions_read_inputs_whose_names_and_columns_look_alike(
    spark: SparkSession, tmp_path: Path, name: str | None
) -> None:
    sources = {}
    for source, column in (("a", "b_c"), ("a_b", "c")):
        (tmp_path / source).mkdir()
        sources[source] = {
            "format": "parquet",
            "path": str(tmp_path / source),
            "schema": f"k string, {column} bigint",
        }
    join = {"left": "a", "right": "a_b", "on": "k", "select": ["a.k", "a.b_c + a_b.c AS s"]}
    job = {
        "name": "j",
        "execution": {"runtime-mode": "batch"},
        "sources": sources,
        "steps": [{"join": join} | ({} if name is None else {"name": name})],
        "sink": {"format": "parquet", "path": str(tmp_path / "out")},
    }
    plan = analyse(spark, job_spec_from_mapping(job), lambda *place: str(place)).plan
    (result,) = plan.results.values()
    assert [field.name for field in result.fields] == ["k", "s"]


NO_KEY = "the join retracts rows, and its rows have no key"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a, b: a.join(b, on="k", type="left", select=["left.k", "right.age"]), NO_KEY),
        (lambda a, b: a.join(b, on="k", type="left", select=["left.k", "right.age + 1 AS n"]), NO_KEY),
        (lambda a, b: a.join(b, on="k", type="anti").sql("SELECT k FROM previous"), NO_KEY),
        (
            lambda a, b: a.join(b.sql("SELECT k, INTERVAL 1 SECOND AS i FROM previous"), on="k"),
            "and cannot store this type.* column=i, type=duration",
        ),
        (
            lambda a, b: (
                a.key_by("k").aggregate(n="count(*)").join(b, on="k", type="semi").key_by("k").deduplicate(keep="any")
            ),
            "which change: a row that was kept cannot be retracted",
        ),
        (
            lambda a, b: (
                a.key_by("k")
                .aggregate(n="count(*)")
                .join(b, on="k", select=["left.k", "right.age"])
                .key_by("k")
                .deduplicate(keep="any")
            ),
            "emits results that change later",
        ),
    ],
)
def test_what_an_output_or_a_step_behind_cannot_read_is_refused(
    spark: SparkSession, tmp_path: Path, build: Build, message: str
) -> None:
    with pytest.raises(InvalidJobError, match=message):
        plan_of(spark, tmp_path, build)
