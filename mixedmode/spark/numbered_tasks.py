"""Tasks that get a number and no rows of Spark's, and return reports: those that read files themselves.

Such tasks need nothing of Spark SQL. A job of an RDD has no plan to analyse and optimise and no code to generate, which
takes longer than the work of a small epoch. Its Python workers are those of Spark SQL only if both have the same
environment, which mixedmode's settings see to (settings.py). In a session of another program they may differ. A second
set of workers would hold the state a second time, so there the tasks run over a frame.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mixedmode.spark.frames import Task
from mixedmode.spark.settings import SAME_WORKERS

__all__ = ["NumberedTasks", "with_rows"]


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
        context = session.sparkContext
        if self.count == 0:
            return []
        if SAME_WORKERS not in context.environment:
            found = self.frame(session, f"`{column}` binary").collect()
            return [bytes(row[0]) for row in found if row[0] is not None]
        run = _Reporting(self.task, column)
        return context.parallelize(range(self.count), self.count).mapPartitions(run).collect()


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
        batches = (pa.RecordBatch.from_pydict({"id": [number]}) for number in numbers)
        for batch in self.task(batches):
            yield from (value for value in batch.column(self.column).to_pylist() if value is not None)
