"""Tasks that get a number and no rows of Spark's: those that read files. They return reports, or rows for others.

Such tasks need nothing of Spark SQL. A job of an RDD has no plan to analyse and optimise and no code to generate, which
takes longer than the work of a small epoch. Its Python workers are those of Spark SQL only if both have the same
environment, which mixedmode's settings see to (settings.py). In a session of another program they may differ. A second
set of workers would hold the state a second time, so there the tasks run over a frame.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.spark.frames import Task
from mixedmode.spark.settings import SAME_WORKERS

__all__ = ["NumberedTasks", "TwoStages", "shares_workers", "with_rows"]


@dataclass(frozen=True, slots=True)
class NumberedTasks:
    """So many tasks of one kind. `task` gets batches with one column, the number of the task."""

    task: Task
    count: int

    def frame(self, session: SparkSession, output: str | StructType) -> DataFrame:
        """Return the rows of all tasks.  output: their columns."""
        return session.range(0, self.count, 1, max(1, self.count)).mapInArrow(self.task, output)

    def reports(self, session: SparkSession, column: str) -> list[bytes]:
        """Run the tasks, and return the values of a column that are not NULL; the tasks have no other rows."""
        if self.count == 0:
            return []
        if not shares_workers(session):
            found = self.frame(session, f"`{column}` binary").collect()
            return [bytes(row[0]) for row in found if row[0] is not None]
        return self.numbers(session).mapPartitions(_Reporting(self.task, column)).collect()

    def numbers(self, session: SparkSession) -> RDD[int]:
        """Return the numbers of the tasks, each in a partition of its own."""
        return session.sparkContext.parallelize(range(self.count), self.count)


@dataclass(frozen=True, slots=True)
class TwoStages:
    """Numbered tasks whose rows go to `count` tasks of a second kind, in a session with shares_workers.

    The first column of a row is the number of the second task that gets it; all rows of a batch have the same. Rows are
    few and small: they are Python objects on their way.
    """

    first: NumberedTasks
    second: Task
    count: int

    def reports(self, session: SparkSession, column: str) -> list[bytes]:
        """Run the tasks, and return the values of a column that are not NULL; the second tasks have no other rows."""
        rows = self.first.numbers(session).mapPartitions(_Addressing(self.first.task)).partitionBy(self.count, int)
        return rows.values().mapPartitions(_Receiving(_Reporting(self.second, column))).collect()


def shares_workers(session: SparkSession) -> bool:
    """Return whether jobs without Spark SQL run in the same Python workers as those with it."""
    return SAME_WORKERS in session.sparkContext.environment


def with_rows(
    tasks: NumberedTasks | None, rows: DataFrame | None, session: SparkSession
) -> DataFrame | NumberedTasks | None:
    """Return what tasks return, and the rows of a frame with the same columns; None if there are neither."""
    if tasks is None or rows is None:
        return rows if tasks is None else tasks
    return rows.union(tasks.frame(session, rows.schema))


@dataclass(frozen=True, slots=True)
class _Reporting:
    """A task that returns the values of a column."""

    task: Task
    column: str

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Yield the values of the column that are not NULL."""
        return self.of_batches(_batches_of(numbers))

    def of_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        """Do the same for a task that gets these rows."""
        for batch in self.task(batches):
            yield from (value for value in batch.column(self.column).to_pylist() if value is not None)


@dataclass(frozen=True, slots=True)
class _Addressing:
    """A task that returns its batches, each with the number of the task that gets it."""

    task: Task

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches that have rows."""
        return ((batch.column(0)[0].as_py(), batch) for batch in self.task(_batches_of(numbers)) if batch.num_rows)


@dataclass(frozen=True, slots=True)
class _Receiving:
    """A task that gets the batches of a partition."""

    reporting: _Reporting

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        """Yield the values of its column."""
        return self.reporting.of_batches(iter(batches))


def _batches_of(numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
    return (pa.RecordBatch.from_pydict({"id": [number]}) for number in numbers)
