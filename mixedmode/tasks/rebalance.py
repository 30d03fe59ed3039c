"""The exchange before a map stage: rows are dealt out to the subtasks, in blocks, and come in one certain order.

Map side: each slice of a task's input is cut in as many pieces as there are subtasks (operators/map/dealing.py), which
are shipped as Arrow IPC blocks.

A subtask reads the blocks in the order of (task, number). So an epoch that is run again, after whatever failure, shows
each subtask the same rows in the same order, and a function that goes by nothing else gives the same rows once more.

Invariants (tests/tasks/test_rebalance.py):
  I1  every row of a task goes to one subtask
  I2  in the order of the blocks' numbers, the rows of a subtask are in the order of the task
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.operators.map.dealing import dealt
from mixedmode.tasks.blocks import BLOCK_BYTES, blocks_of, cell_of
from mixedmode.tasks.exchange import gathered

__all__ = ["DEALT_DDL", "ORDER", "Rebalance", "deal"]

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


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What a map task needs to know. Called by Spark with the task's record batches."""

    epoch: Epoch
    parallelism: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of one map task: none for an empty input."""
        from pyspark import TaskContext  # noqa: PLC0415 - the only thing that a task asks Spark

        context = TaskContext.get()
        assert context is not None, "rows are dealt out inside a Spark task"
        yield from deal(batches, task=context.partitionId(), parallelism=self.parallelism, turn=self.epoch)


def deal(
    batches: Iterator[pa.RecordBatch], *, task: int, parallelism: int, turn: int, slice_bytes: int = BLOCK_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of one map task as blocks for the subtasks.

    turn: of the first slice of the first task, whose turns go on from it. slice_bytes: of the rows for one subtask.
    """
    number = 0
    for own_turn, table in enumerate(gathered(batches, slice_bytes * parallelism), turn + task):
        for subtask, rows in dealt(table, parallelism=parallelism, turn=own_turn):
            for block in blocks_of(rows):
                yield pa.record_batch([[subtask], [task], [number], cell_of(block)], schema=_SCHEMA)
                number += 1
