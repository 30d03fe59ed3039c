"""Async maps on Spark: what its analysis refuses, in one report, and what a run says of a service that is away."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mixedmode.analysis.job import analyse
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, run, write_parquet

pytestmark = pytest.mark.spark
DDL = "k string, v bigint, l array<bigint>, at timestamp"


def events(place: Path) -> Job:
    return Job("a", sources={"s": Source.parquet(place, schema=DDL, event_time="at")}, mode="batch", spark=SPARK)


def test_all_mistakes_of_a_step_are_in_one_report(spark: SparkSession, tmp_path: Path) -> None:
    job = (
        events(tmp_path)
        .key_by("k", "l")
        .async_map(
            "tests.differential.away:Away",
            output="V string, parts array<interval second>",
            remember="1d",
            args={"url": "x"},
        )
    )
    with pytest.raises(InvalidJobError) as caught:
        analyse(spark, job.write(Sink.parquet("/out")).spec, job.where)
    mistakes = str(caught.value).splitlines()
    for number, (place, text) in enumerate(
        [
            ("key-by", "a column of this type cannot be part of a key"),
            ("async-map", "the arguments do not fit the async map function"),
            ("output", "the input has a column of this name, and rows keep their columns. Choose another. column=V"),
            ("output", "a remembered answer has no column of this type."),
        ]
    ):
        assert place in mistakes[number]
        assert text in mistakes[number]
    assert len(mistakes) == 4


def test_sql_around_a_step_is_resolved_with_the_columns_of_the_answer(spark: SparkSession, tmp_path: Path) -> None:
    job = (
        events(tmp_path)
        .sql("SELECT lower(k) AS k, v, l, at FROM s")
        .key_by("k", "v % 10 AS digit", name="asked")
        .async_map("tests.differential.away:Away", output="parts array<string>, n bigint")
        .sql("SELECT k, digit, explode(parts) AS part, at FROM asked WHERE n > 0")
    )
    plan = analyse(spark, job.write(Sink.parquet("/out")).spec, job.where).plan
    (stage,) = plan.stages
    assert [field.name for field in stage.operator.output_fields] == ["k", "digit", "v", "l", "at", "parts", "n"]
    assert (stage.emitted.event_time, stage.operator.states) == ("at", ())
    assert [field.name for field in plan.results[""].fields] == ["k", "digit", "part", "at"]


def test_a_service_that_is_away_is_told_in_one_line_and_the_job_may_be_started_again(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("away")
    row = {"k": "a", "v": 1, "l": [], "at": 0}
    schema = pa.schema(
        [("k", pa.string()), ("v", pa.int64()), ("l", pa.list_(pa.int64())), ("at", pa.timestamp("us", "UTC"))]
    )
    write_parquet(folder / "in", "0.parquet", pa.Table.from_pylist([row], schema))
    job = events(folder / "in").key_by("k").async_map("tests.differential.away:Away", output="n bigint", retries=0)
    with pytest.raises(RetryableError) as caught:
        run(job.write(Sink.parquet(folder / "out")), spark)
    message = str(caught.value)
    assert message.startswith(
        "a call of the service failed: ConnectionRefusedError: nobody answers about a. Nothing of"
    )
    assert 'operator=async-map-1, request={"k": "a"}, idempotency_key=' in message
    assert "away.py:14 in call" in message
