"""transformWithState in a streaming DataFrame becomes a process step, which returns the rows of its class."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode.testing import run_graph
from tests.operators.spark_processor.processors import PandasCount, Quiet, RunningCount, WithArguments

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k string, t timestamp, v bigint, w string"
ROWS = [{"k": k, "t": START + timedelta(seconds=t), "v": t, "w": "x"} for k, t in (("a", 1), ("b", 2), ("a", 90))]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path)).withWatermark("t", "1 second")


def steps_of(query: DataFrame) -> list[dict[str, Any]]:
    steps = Job.from_stream(query, "taken", mode="batch").steps
    given = [step.model_dump(mode="json", by_alias=True, exclude_defaults=True) for step in steps]
    return [{name: value for name, value in one.items() if name != "folder"} for one in given]


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").transformWithState(RunningCount(), "k string, n bigint", "append", "None")


HERE = "tests.operators.spark_processor.processors"
COUNT = {"key-by": ["k"], "process": f"{HERE}:RunningCount", "time-mode": "None", "rows-as": "row"}


def test_the_steps_of_a_stream_with_a_class(stream: DataFrame) -> None:
    quiet = stream.groupBy("k").transformWithState(Quiet(), "k string, at bigint, v bigint", "append", "EventTime")
    assert steps_of(quiet) == [
        {
            "key-by": ["k"],
            "process": f"{HERE}:Quiet",
            "time-mode": "EventTime",
            "rows-as": "row",
            "output": "k STRING,at BIGINT,v BIGINT",
        }
    ]
    assert steps_of(counted(stream.where("v > 1L").select("t", "k")).where("n > 1L").select("n")) == [
        {"sql": "SELECT t, k FROM records WHERE (v > 1L)"},
        {**COUNT, "output": "k STRING,n BIGINT"},
        {"sql": "SELECT n FROM previous WHERE (n > 1L)"},
    ]


def test_a_class_returns_its_rows(stream: DataFrame) -> None:
    output = "k string, n int, total double, at timestamp, v bigint"
    query = stream.groupBy("k").transformWithStateInPandas(PandasCount(), output, "append", "None")
    job = Job.from_stream(query, "taken", mode="batch")
    for given, live in ((ROWS, []), (ROWS[:2], [{"records": ROWS[2:]}])):
        found = run_graph(job, {"records": given}, live=live).table()
        rows = sorted((row["k"], row["n"], row["total"]) for row in found)
        assert rows == [("a", 1, 1.0), ("a", 2, 91.0), ("b", 1, 2.0)]


def test_timers_go_by_the_watermark_of_the_stream(stream: DataFrame) -> None:
    """Also after a filter and columns, in which the time has another name."""
    for rows in (stream, stream.where("v > 0L").select("k", "t", "v"), stream.selectExpr("k", "t AS at", "v", "t")):
        query = rows.groupBy("k").transformWithState(Quiet(), "k string, at bigint, v bigint", "append", "EventTime")
        job = Job.from_stream(query, "taken", mode="batch")
        for given, live in ((ROWS, []), (ROWS[:2], [{"records": ROWS[2:]}])):
            found = run_graph(job, {"records": given}, live=live).table()
            assert sorted((row["k"], row["v"]) for row in found) == [("a", 1), ("a", 90), ("b", 2)]


REFUSED: list[tuple[Callable[[DataFrame], DataFrame], str]] = [
    (
        lambda d: d.groupBy("k").transformWithState(WithArguments(3), "n int", "append", "None"),
        "with values of its own",
    ),
    (
        lambda d: (
            d.withColumnRenamed("k", "a b").groupBy("a b").transformWithState(RunningCount(), "n int", "append", "None")
        ),
        "a key of the name 'a b'",
    ),
]


def test_a_class_that_tasks_cannot_import_is_refused(stream: DataFrame) -> None:
    class Local(RunningCount):
        """A class that is not at the top of a module."""

    query = stream.groupBy("k").transformWithState(Local(), "n int", "append", "None")
    with pytest.raises(InvalidJobError, match="this one cannot be imported"):
        steps_of(query)


def test_initial_state_is_refused(stream: DataFrame, spark: SparkSession) -> None:
    initial = spark.createDataFrame([("a", 1)], "k string, n int").groupBy("k")
    query = stream.groupBy("k").transformWithState(RunningCount(), "n int", "append", "None", initial)
    with pytest.raises(InvalidJobError, match="Put the initial rows before the input"):
        steps_of(query)


def test_an_event_time_of_the_rows_is_refused(stream: DataFrame) -> None:
    query = stream.groupBy("k").transformWithState(
        RunningCount(), "k string, at timestamp", "append", "EventTime", eventTimeColumnName="at"
    )
    with pytest.raises(InvalidJobError, match=r"with event_time of \.process"):
        steps_of(query)


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_what_a_job_cannot_take_is_refused(
    stream: DataFrame, query: Callable[[DataFrame], DataFrame], message: str
) -> None:
    with pytest.raises(InvalidJobError, match=f"Job.from_stream: .*{message}"):
        steps_of(query(stream))
