"""Blocks that the driver holds between two stages: each gets to its subtask, as rows and as a frame."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from mixedmode.executor.held_blocks import HeldBlocks, parted
from mixedmode.tasks.block_rows import BLOCK_SCHEMA, BlockKind, block_batch
from mixedmode.tasks.inner_rows import with_report_column
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITH_REPORT = pa.schema([*BLOCK_SCHEMA, pa.field(REPORT_COLUMN, pa.binary())])
BLOCKS = [block_batch(subtask, BlockKind.ROWS, f"block {at}".encode()) for at, subtask in enumerate((2, 0, 2, 2))]


def returned() -> list[pa.RecordBatch]:
    """The batches that two subtasks return: blocks, then a report each."""
    batches = list[pa.RecordBatch]()
    for subtask, blocks in enumerate((BLOCKS[:1], BLOCKS[1:])):
        table = pa.Table.from_batches(blocks)
        batches += with_report_column(table, WITH_REPORT, 0).to_batches()
        report = SubtaskReport(subtask=subtask, rows_out=len(blocks)).encode()
        nothing = [pa.nulls(1, field.type) for field in BLOCK_SCHEMA]
        batches.append(pa.record_batch([*nothing, pa.array([report], pa.binary())], schema=WITH_REPORT))
    return batches


def contents(batches: list[pa.RecordBatch]) -> list[bytes]:
    return [block for batch in batches for block in batch.column("block").to_pylist()]


@pytest.mark.parametrize("at_once", [False, True])
def test_each_block_gets_to_its_subtask_in_order(at_once: bool) -> None:
    batches = returned()
    if at_once:  # as a frame of Spark may return them
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    ended = parted(batches)
    assert [report.rows_out for report in ended.reports] == [1, 3]
    assert ended.blocks is not None
    of_subtasks = ended.blocks.of_subtasks(4)
    assert [contents(blocks) for blocks in of_subtasks] == [[b"block 1"], [], [b"block 0", b"block 2", b"block 3"], []]
    assert all(batch.num_rows == 1 for blocks in of_subtasks for batch in blocks)


def test_as_a_frame_they_are_the_same_rows(spark: "SparkSession") -> None:
    rows = HeldBlocks(BLOCKS).frame(spark).collect()
    assert [row.asDict() for row in rows] == pa.Table.from_batches(BLOCKS).to_pylist()
