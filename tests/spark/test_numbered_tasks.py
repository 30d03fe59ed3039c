"""Tasks without rows of Spark's return their reports with and without a frame, in the same workers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from mixedmode.errors import RetryableError
from mixedmode.spark.errors import explained
from mixedmode.spark.numbered_tasks import NumberedTasks
from mixedmode.spark.settings import SAME_WORKERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Telling:
    """A task that tells its number and its process, and has a row without a report."""

    text: str
    fails: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        if self.fails:
            msg = f"no {self.text}"
            raise ValueError(msg)
        report = f"{self.text} {numbers} {os.getpid()}".encode()
        yield pa.RecordBatch.from_pydict({"report": pa.array([None, report], pa.binary())})


def _numbers(reports: list[bytes]) -> list[str]:
    return [report.decode().rpartition(" ")[0] for report in reports]


def _processes(reports: list[bytes]) -> set[str]:
    return {report.decode().rpartition(" ")[2] for report in reports}


@pytest.fixture
def other_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> "SparkSession":
    """The session as if another program had opened it."""
    monkeypatch.delitem(spark.sparkContext.environment, SAME_WORKERS)
    return spark


def test_each_task_gets_its_number_and_returns_its_report(spark: "SparkSession") -> None:
    assert _numbers(NumberedTasks(_Telling("a"), 2).reports(spark, "report")) == ["a [0]", "a [1]"]


def test_the_reports_are_the_same_in_a_session_of_another_program(other_session: "SparkSession") -> None:
    assert _numbers(NumberedTasks(_Telling("a"), 2).reports(other_session, "report")) == ["a [0]", "a [1]"]


def test_no_tasks_return_no_reports(spark: "SparkSession") -> None:
    tasks = NumberedTasks(_Telling("a"), 0)
    assert tasks.reports(spark, "report") == []
    assert tasks.frame(spark, "report binary").collect() == []


def test_the_workers_are_those_of_spark_sql(spark: "SparkSession") -> None:
    def one_after_the_other(task: NumberedTasks) -> set[str]:
        return set().union(*(_processes(task.reports(spark, "report")) for _ in range(3)))

    tasks = NumberedTasks(_Telling("a"), 1)
    frame = tasks.frame(spark, "report binary").where("report IS NOT NULL")
    of_sql = _processes([bytes(row[0]) for _ in range(3) for row in frame.collect()])
    assert one_after_the_other(tasks) & of_sql


def test_an_error_of_a_task_is_explained(spark: "SparkSession") -> None:
    with pytest.raises(Exception, match="no luck") as raised:
        NumberedTasks(_Telling("luck", fails=True), 1).reports(spark, "report")
    found = explained(raised.value, log_file="spark.log")
    assert type(found) is RetryableError
    assert "cause=ValueError: no luck, log=spark.log" in str(found)
