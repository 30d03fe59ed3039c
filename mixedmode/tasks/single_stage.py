"""A small epoch in one Spark stage: each subtask reads all of the input itself, and keeps what is its own.

The one idea: reading and folding a few megabytes once per subtask takes less time than a stage of map tasks and a
shuffle. What a subtask gets is what the shuffle would have brought it, block by block.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.sources.parquet_files import SLICE_BYTES
from mixedmode.tasks.direct import DirectMapSide
from mixedmode.tasks.exchange import BlockKind
from mixedmode.tasks.subtask import SubtaskTask

_OF_THE_TASK_ITSELF = (BlockKind.FAILURE, BlockKind.PROFILE)


def is_single_stage(input_bytes: int, *, parallelism: int) -> bool:
    """Whether an epoch runs in one stage: all subtasks together read no more than one map task may. Pure."""
    return input_bytes * parallelism <= SLICE_BYTES


@dataclass(frozen=True, slots=True)
class SingleStage:
    """Map side and subtask in one. Called by Spark with the number of the subtask. `map_side` has one task."""

    map_side: DirectMapSide
    subtask: SubtaskTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the subtask gives."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        (own,) = numbers
        return self.subtask(iter([block for block in self.map_side.blocks(0) if _is_for(own, block)]))


def _is_for(subtask: int, block: pa.RecordBatch) -> bool:
    target, kind = (block.column(number)[0].as_py() for number in range(2))
    return target == subtask or kind in _OF_THE_TASK_ITSELF
