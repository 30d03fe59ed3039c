"""Blocks from one stage for its readers that the driver holds, where all tasks share a disk.

If the readers of a stage need no Spark, its subtasks return blocks: those of the only reader if its map side runs in
the same tasks (inner_folds.py), else the rows as they are (tasks/held_rows.py). Large blocks are in files, and the
subtasks return their places (tasks/block_files.py). The driver gets places and small blocks together with the reports,
and sends them to the tasks of the readers. So Spark makes no plan between the stages, which would take longer than the
work of a small epoch; and rows and report are always of the same attempt.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.spark.numbered_tasks import NumberedTasks
from mixedmode.spark.session import is_one_process
from mixedmode.tasks.block_rows import BLOCK_DDL, BLOCK_SCHEMA
from mixedmode.tasks.held_rows import HeldBlock
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report

__all__ = ["Ended", "HeldBlocks", "StageRows", "blocks_folder", "parted"]


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """Blocks of a stage, as rows of BLOCK_SCHEMA."""

    batches: Sequence[pa.RecordBatch]

    @property
    def blocks(self) -> list[HeldBlock]:
        """Return the blocks by themselves."""
        rows = (row for batch in self.batches for row in batch.select(["kind", "block"]).to_pylist())
        return [HeldBlock(row["kind"], row["block"]) for row in rows]

    def of_subtasks(self, parallelism: int) -> list[list[pa.RecordBatch]]:
        """Return the blocks for each subtask of the reader whose map side has made them."""
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
    """The results of an action: reports, and the blocks for other stages if the driver holds them."""

    reports: list[SubtaskReport] = field(default_factory=list)
    blocks: HeldBlocks | None = None


@dataclass(frozen=True, slots=True)
class StageRows:
    """The rows of the stages that have ended, by operator id: in a frame, or in held blocks."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    held: dict[str, HeldBlocks] = field(default_factory=dict)

    @property
    def names(self) -> AbstractSet[str]:
        """Return the stages."""
        return self.frames.keys() | self.held.keys()

    def of(self, names: Iterable[str]) -> "StageRows":
        """Return the rows of some stages."""
        wanted = set(names)
        return StageRows(
            {name: frame for name, frame in self.frames.items() if name in wanted},
            {name: blocks for name, blocks in self.held.items() if name in wanted},
        )


@contextmanager
def blocks_folder(session: SparkSession) -> Iterator[str | None]:
    """Return the folder for blocks of one epoch; None on a cluster, whose tasks share no disk."""
    if not is_one_process(session):
        yield None
        return
    with temporary_folder("blocks-") as folder:
        yield str(folder)


def parted(batches: Iterable[pa.RecordBatch]) -> Ended:
    """Return the reports and the blocks in what the subtasks of a stage return."""
    reports, blocks = list[SubtaskReport](), list[pa.RecordBatch]()
    for batch in batches:
        report = batch.column(REPORT_COLUMN)
        reports += [decode_report(value.as_py()) for value in report if value.is_valid]
        blocks.append(batch.filter(report.is_null()).select(BLOCK_SCHEMA.names))
    return Ended(reports, HeldBlocks([batch for batch in blocks if batch.num_rows]))
