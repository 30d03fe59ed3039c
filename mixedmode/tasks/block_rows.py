"""The rows that Spark moves before a keyed stage: (subtask, kind, block). A row goes to the partition `subtask`."""

from enum import StrEnum

import pyarrow as pa

from mixedmode.tasks.blocks import cell_of

__all__ = ["BLOCK_DDL", "BLOCK_SCHEMA", "BlockKind", "block_batch", "failure_batch"]

BLOCK_SCHEMA = pa.schema(
    [pa.field("subtask", pa.int32()), pa.field("kind", pa.string()), pa.field("block", pa.binary())]
)
BLOCK_DDL = "subtask int, kind string, block binary"


class BlockKind(StrEnum):
    """The kind of content of a block."""

    ROWS = "rows"  # keyed rows for the operator
    RECORDS = "records"  # records of the input, which the subtask folds
    PLACE = "place"  # where a block is (block_files.py)
    LATE = "late"  # records of the input that are too late for every window
    LATE_LEFT = "late-left"  # late rows of the left of a join
    LATE_RIGHT = "late-right"
    PROGRESS = "progress"  # the progress of the sources, as the map task has seen it
    PROFILE = "profile"  # seconds of work of the map task, by stage
    FAILURE = "failure"  # an error, in place of further blocks


def block_batch(subtask: int, kind: BlockKind, block: pa.Buffer | bytes) -> pa.RecordBatch:
    """Return a block for a subtask as a row."""
    return pa.record_batch([[subtask], [kind.value], cell_of(block)], schema=BLOCK_SCHEMA)


def failure_batch(failure: bytes) -> pa.RecordBatch:
    """Return an encoded error as the last block of a map task."""
    return block_batch(0, BlockKind.FAILURE, failure)
