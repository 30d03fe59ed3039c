"""A sql step reads a source or the step before it, however its text writes the name."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    ["Orders", "oRDERS", "`Orders`", "IDENTIFIER('Orders')", "identifier('ord' || 'ers')", "PREVIOUS", "`previous`"],
)
def test_a_name_is_found(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    source = Source.parquet(tmp_path / "in", schema="k string, v int")
    job = Job("names", sources={"Orders": source, "other": source}, mode="batch", spark=SPARK)
    complete = job.output("o", job.source("Orders").sql(f"SELECT v FROM {name}"), Sink.parquet(tmp_path / "out"))
    assert [field.name for field in analyse(spark, complete.spec, complete.where).plan.results["o"].fields] == ["v"]
