"""Blocks from one stage for the next that the driver holds, where all tasks share a disk.

The subtasks of a stage may run the map side of the stage that reads it (inner_folds.py). Then their rows are blocks,
which are in files if they are large (tasks/block_files.py): what is left is few and small. The driver gets it together
with the reports, and sends it to the subtasks of the next stage. So there is no plan of Spark between the two stages,
which would take longer than the work of a small epoch; and rows and report are always of the same attempt.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mixedmode.spark.numbered_tasks import NumberedTasks
from mixedmode.tasks.block_rows import BLOCK_DDL, BLOCK_SCHEMA
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report

__all__ = ["Ended", "HeldBlocks", "parted"]


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """Blocks for the subtasks of a stage, as rows of BLOCK_SCHEMA."""

    batches: Sequence[pa.RecordBatch]

    def of_subtasks(self, parallelism: int) -> list[list[pa.RecordBatch]]:
        """Return the blocks for each subtask."""
        found: list[list[pa.RecordBatch]] = [[] for _ in range(parallelism)]
        for batch in self.batches:
            for row in range(batch.num_rows):
                found[batch.column(0)[row].as_py()].append(batch.slice(row, 1))
        return found

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the same rows as a frame."""
        return NumberedTasks(_Returning(self.batches), 1).frame(session, BLOCK_DDL)


@dataclass(frozen=True, slots=True)
class _Returning:
    """A task that returns rows which travel with it."""

    batches: Sequence[pa.RecordBatch]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield them for the only number."""
        for _ in numbers:
            yield from self.batches


@dataclass(frozen=True, slots=True)
class Ended:
    """What the tasks of an action return: reports, and the blocks for the next stage if the driver holds them."""

    reports: list[SubtaskReport] = field(default_factory=list)
    blocks: HeldBlocks | None = None


def parted(batches: Iterable[pa.RecordBatch]) -> Ended:
    """Return the reports and the blocks in what the subtasks of a stage return."""
    reports, blocks = list[SubtaskReport](), list[pa.RecordBatch]()
    for batch in batches:
        report = batch.column(REPORT_COLUMN)
        reports += [decode_report(value.as_py()) for value in report if value.is_valid]
        blocks.append(batch.filter(report.is_null()).select(BLOCK_SCHEMA.names))
    return Ended(reports, HeldBlocks([batch for batch in blocks if batch.num_rows]))
