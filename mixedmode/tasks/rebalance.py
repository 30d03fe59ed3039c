"""The exchange before a map stage: deals rows to the subtasks in blocks, in a deterministic order.

Map side: each slice of a task's input is cut into one piece per subtask (operators/map/dealing.py), and the pieces are
sent as Arrow IPC blocks.

A subtask reads the blocks in the order of (task, number). So when an epoch runs again after a failure, each subtask
reads the same rows in the same order. A deterministic function then emits the same rows again.

Invariants (tests/tasks/test_rebalance.py):
  I1  every row of a task goes to exactly one subtask
  I2  in the order of the blocks' numbers, the rows of a subtask are in the order of the task
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.operators.map.dealing import dealt
from mixedmode.tasks.blocks import BLOCK_BYTES, blocks_of, cell_of
from mixedmode.tasks.exchange import gathered
from mixedmode.tasks.numbers import TaskNumbers, numbers_from_spark
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.watching import Watch

__all__ = ["DEALT_DDL", "ORDER", "PROGRESS", "Rebalance", "deal"]

_SCHEMA = pa.schema(
    [
        pa.field("subtask", pa.int32()),
        pa.field("task", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("block", pa.binary()),
    ]
)
DEALT_DDL = "subtask int, task int, number long, block binary"
ORDER = ("task", "number")  #: of the blocks of a subtask
PROGRESS = -1  #: the number of a block that has no rows, but the progress of the sources that the map task has seen


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Everything that a map task needs. Spark calls it with the task's record batches.

    `watch`: how the first map stage measures the progress of the source; None for other stages. With `watch`, the input
    has the columns of the rows, whose names are `columns`, and after them the columns that `watch` reads.
    """

    epoch: Epoch
    parallelism: int
    watch: Watch | None = None
    columns: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one map task; none for empty input."""
        return self.run(batches, numbers_from_spark())

    def run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of the map task with these numbers."""
        task, seen = numbers.partition, [Progress()]
        tables = gathered(batches, BLOCK_BYTES * self.parallelism)
        if self.watch is not None:
            tables = self._rows(tables, self.watch, seen)
        yield from deal(tables, task=task, parallelism=self.parallelism, turn=self.epoch)
        if seen[0].splits:
            yield _block(0, task, PROGRESS, seen[0].encode())

    def _rows(self, tables: Iterator[pa.Table], watch: Watch, seen: list[Progress]) -> Iterator[pa.Table]:
        """Yield only the rows of the step. Set the only item of `seen` to the progress of the sources in all tables."""
        for table in tables:
            rows, progress = watch.split(table)
            seen[0] = seen[0].merged(progress)
            if rows.num_rows:
                yield rows.select(range(len(self.columns))).rename_columns(self.columns)


def deal(tables: Iterator[pa.Table], *, task: int, parallelism: int, turn: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one map task as blocks for the subtasks.

    turn: the turn of the first table of task 0. Task t begins with turn + t, and each further table adds 1.
    """
    number = 0
    for own_turn, table in enumerate(tables, turn + task):
        for subtask, rows in dealt(table, parallelism=parallelism, turn=own_turn):
            for block in blocks_of(rows):
                yield _block(subtask, task, number, block)
                number += 1


def _block(subtask: int, task: int, number: int, block: pa.Buffer | bytes) -> pa.RecordBatch:
    return pa.record_batch([[subtask], [task], [number], cell_of(block)], schema=_SCHEMA)
