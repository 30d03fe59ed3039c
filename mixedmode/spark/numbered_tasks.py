"""Tasks that get no rows of Spark's: those that read files, or get blocks from the driver. They return reports or rows.

Such tasks need nothing of Spark SQL. A job of an RDD has no plan to analyse and optimise and no code to generate, which
takes longer than the work of a small epoch. Its Python workers are those of Spark SQL only if both have the same
environment, which mixedmode's settings see to (settings.py). In a session of another program they may differ. A second
set of workers would hold the state a second time, so there the tasks run over a frame.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.spark.frames import Task
from mixedmode.spark.jobs import MAP_SIDE, described_as_part
from mixedmode.spark.settings import SAME_WORKERS

__all__ = ["FedTasks", "NumberedTasks", "Tasks", "TwoStages", "shares_workers", "with_rows"]

Made = TypeVar("Made")
_Maker = Callable[[Iterator[pa.RecordBatch]], Iterator[Made]]


class Tasks(Protocol):
    """Tasks without rows of Spark's, in a session with shares_workers."""

    task: Task  #: makes the rows that the tasks return

    @abstractmethod
    def made(self, session: SparkSession, make: "_Maker[Made]") -> list[Made]:
        """Run the tasks with `make` in place of `task`, and return all that it makes."""

    def reports(self, session: SparkSession, column: str) -> list[bytes]:
        """Run the tasks, and return the values of a column that are not NULL; the tasks have no other rows."""
        return self.made(session, _Reporting(self.task, column))

    def batches(self, session: SparkSession) -> list[pa.RecordBatch]:
        """Run the tasks, and return their rows, which are few and small."""
        return self.made(session, self.task)


@dataclass(frozen=True, slots=True)
class NumberedTasks(Tasks):
    """So many tasks of one kind. `task` gets batches with one column, the number of the task."""

    task: Task
    count: int

    def frame(self, session: SparkSession, output: str | StructType) -> DataFrame:
        """Return the rows of all tasks.  output: their columns."""
        return session.range(0, self.count, 1, max(1, self.count)).mapInArrow(self.task, output)

    @override
    def reports(self, session: SparkSession, column: str) -> list[bytes]:
        """Do so in any session."""
        if self.count == 0:
            return []
        if not shares_workers(session):
            found = self.frame(session, f"`{column}` binary").collect()
            return [bytes(row[0]) for row in found if row[0] is not None]
        return Tasks.reports(self, session, column)

    @override
    def made(self, session: SparkSession, make: "_Maker[Made]") -> list[Made]:
        return self.numbers(session).mapPartitions(_Fed(make, _batches_of)).collect()

    def numbers(self, session: SparkSession) -> RDD[int]:
        """Return the numbers of the tasks, each in a partition of its own."""
        return session.sparkContext.parallelize(range(self.count), self.count)


@dataclass(frozen=True, slots=True)
class TwoStages(Tasks):
    """Numbered tasks whose rows go to `count` tasks of a second kind.

    The first column of a row is the number of the second task that gets it; all rows of a batch have the same. Rows are
    few and small: the driver gets them, and sends them on. These are two jobs of Spark. One job with a shuffle takes
    longer for such rows, as each task writes and reads files in Spark's JVM.
    """

    first: NumberedTasks
    task: Task
    count: int

    @override
    def made(self, session: SparkSession, make: "_Maker[Made]") -> list[Made]:
        with described_as_part(session, MAP_SIDE):
            rows = self.first.made(session, _Addressing(self.first.task))
        given: list[list[pa.RecordBatch]] = [[] for _ in range(self.count)]
        for number, batch in rows:
            given[number].append(batch)
        return FedTasks(self.task, given).made(session, make)


@dataclass(frozen=True, slots=True)
class FedTasks(Tasks):
    """A task for each list of batches, which the driver sends to it. They are few and small."""

    task: Task
    given: Sequence[Sequence[pa.RecordBatch]]

    @override
    def made(self, session: SparkSession, make: "_Maker[Made]") -> list[Made]:
        given = session.sparkContext.parallelize(self.given, len(self.given))
        return given.mapPartitions(_Fed(make, chain.from_iterable)).collect()


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
    """Makes the values of a column of the task's rows that are not NULL."""

    task: Task
    column: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        """Yield the values."""
        for batch in self.task(batches):
            yield from (value for value in batch.column(self.column).to_pylist() if value is not None)


@dataclass(frozen=True, slots=True)
class _Addressing:
    """Makes the rows of a task, in one batch for each task that gets some, with the number of this task."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches."""
        rows: dict[int, list[pa.RecordBatch]] = {}
        for batch in self.task(batches):
            if batch.num_rows:
                rows.setdefault(batch.column(0)[0].as_py(), []).append(batch)
        for number, of_task in rows.items():
            (whole,) = pa.Table.from_batches(of_task).combine_chunks().to_batches()
            yield number, whole


@dataclass(frozen=True, slots=True)
class _Fed(Generic[Made]):
    """A function of the elements of a partition.  batches_of: the batches of these elements."""

    make: "_Maker[Made]"
    batches_of: Callable[[Iterable[Any]], Iterator[pa.RecordBatch]]

    def __call__(self, elements: Iterable[Any]) -> Iterator[Made]:
        """Yield what is made of the batches."""
        return self.make(self.batches_of(elements))


def _batches_of(numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
    return (pa.RecordBatch.from_pydict({"id": [number]}) for number in numbers)
