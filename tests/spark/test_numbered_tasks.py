"""Tasks without rows of Spark's return their reports with and without a frame, in the same workers, or after others."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from mixedmode.errors import RetryableError
from mixedmode.spark.errors import explained
from mixedmode.spark.numbered_tasks import FedTasks, NumberedTasks, TwoStages, shares_workers
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


@dataclass(frozen=True)
class _Sending:
    """A task that sends a row with its own number to each of these tasks, and at last a batch without rows."""

    to: tuple[int, ...]
    fails: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (number,) = [number for batch in batches for number in batch.column(0).to_pylist()]
        for target in self.to:
            yield pa.RecordBatch.from_pydict({"to": [target], "n": [number * 10 + target]})
        if self.fails:
            msg = "no first stage"
            raise ValueError(msg)
        yield pa.RecordBatch.from_pydict({"to": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})


@dataclass(frozen=True)
class _Gathering:
    """A task that tells its rows and its process."""

    fails: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        if self.fails:
            msg = "no second stage"
            raise ValueError(msg)
        assert len({row["to"] for row in rows}) <= 1, rows
        report = f"{sorted(row['n'] for row in rows)} {os.getpid()}".encode()
        yield pa.RecordBatch.from_pydict({"report": pa.array([None, report], pa.binary())})


def test_rows_get_to_the_task_whose_number_they_have(spark: "SparkSession") -> None:
    stages = TwoStages(NumberedTasks(_Sending((0, 2, 0)), 2), _Gathering(), 3)
    assert _numbers(stages.reports(spark, "report")) == ["[0, 0, 10, 10]", "[]", "[2, 12]"]


def test_each_task_gets_the_batches_that_the_driver_has_for_it(spark: "SparkSession") -> None:
    batches = [pa.RecordBatch.from_pydict({"to": [0], "n": [n]}) for n in range(3)]
    tasks = FedTasks(_Gathering(), [batches[:2], [], batches[2:]])
    assert _numbers(tasks.reports(spark, "report")) == ["[0, 1]", "[]", "[2]"]


def test_tasks_return_all_their_rows_if_asked_for(spark: "SparkSession") -> None:
    first = NumberedTasks(_Sending((0,)), 2)
    assert [row["n"] for batch in first.batches(spark) for row in batch.to_pylist()] == [0, 10]
    for tasks in (TwoStages(first, _Gathering(), 1), FedTasks(_Gathering(), [first.batches(spark)])):
        (batch,) = tasks.batches(spark)
        no_report, report = batch.column("report").to_pylist()
        assert no_report is None
        assert _numbers([report]) == ["[0, 10]"]


def test_second_tasks_without_any_row_return_reports_too(spark: "SparkSession") -> None:
    stages = TwoStages(NumberedTasks(_Sending(()), 1), _Gathering(), 2)
    assert _numbers(stages.reports(spark, "report")) == ["[]", "[]"]


def test_both_stages_run_in_the_workers_of_spark_sql(spark: "SparkSession") -> None:
    tasks = NumberedTasks(_Telling("a"), 1)
    frame = tasks.frame(spark, "report binary").where("report IS NOT NULL")
    of_sql = _processes([bytes(row[0]) for _ in range(3) for row in frame.collect()])
    stages = TwoStages(NumberedTasks(_Sending((0,)), 1), _Gathering(), 1)
    assert set().union(*(_processes(stages.reports(spark, "report")) for _ in range(3))) & of_sql


def test_the_session_of_another_program_may_have_other_workers(other_session: "SparkSession") -> None:
    assert not shares_workers(other_session)


@pytest.mark.parametrize("first", [True, False], ids=["of the first stage", "of the second stage"])
def test_an_error_of_two_stages_is_explained(spark: "SparkSession", first: bool) -> None:
    stages = TwoStages(NumberedTasks(_Sending((0,), fails=first), 2), _Gathering(fails=not first), 1)
    with pytest.raises(Exception, match=r"no (first|second) stage") as raised:
        stages.reports(spark, "report")
    found = explained(raised.value, log_file="spark.log")
    assert type(found) is RetryableError
    assert f"cause=ValueError: no {'first' if first else 'second'} stage, log=spark.log" in str(found)
