"""Runs a small epoch in one Spark stage: each subtask reads all of the input, and keeps only its own rows.

Reading and folding a few megabytes in every subtask takes less time than a stage of map tasks and a shuffle. A subtask
has the same blocks as after a shuffle.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.direct import DirectMapSide
from mixedmode.tasks.notes import SILENT
from mixedmode.tasks.subtask import SubtaskTask

INPUT_BYTES_MAX = 64 * 1024 * 1024  # of Parquet, that all subtasks together read
_OF_THE_TASK_ITSELF = (BlockKind.FAILURE, BlockKind.PROFILE)


def is_single_stage(input_bytes: int, *, parallelism: int) -> bool:
    """Return whether an epoch runs in one stage: all subtasks together read at most INPUT_BYTES_MAX. Pure.

    For example, with 4 subtasks the input may have INPUT_BYTES_MAX / 4.
    """
    return input_bytes * parallelism <= INPUT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class SingleStage:
    """Map side and subtask in one. Spark calls it with the number of the subtask. `map_side` has exactly one task."""

    map_side: DirectMapSide
    subtask: SubtaskTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output of the subtask."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        (own,) = numbers
        map_side = self.map_side
        if own > 0:  # the input is that of one map task, and one of those that read it tells so
            map_side = replace(map_side, map_side=replace(map_side.map_side, notes=SILENT))
        return self.subtask(iter([block for block in map_side.blocks(0) if _is_for(own, block)]))


def _is_for(subtask: int, block: pa.RecordBatch) -> bool:
    target, kind = (block.column(number)[0].as_py() for number in range(2))
    return target == subtask or kind in _OF_THE_TASK_ITSELF
