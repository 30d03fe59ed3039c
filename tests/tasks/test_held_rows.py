"""Rows of a stage in held blocks: a reader's tasks get each of them once, from files and from blocks that are held."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import CorruptStateError
from mixedmode.executor.held_blocks import HeldBlocks
from mixedmode.executor.task_inputs import TaskInput
from mixedmode.expressions import Column, Query
from mixedmode.tasks.block_files import BLOCK_BYTES_MIN
from mixedmode.tasks.block_rows import BlockKind, block_batch
from mixedmode.tasks.held_rows import HeldBlock, HeldPieces, RowBlocks

#: the column `n` under the name `m`
QUERY = Query((Column("n", pa.int64()),), (), (("m", 0),))


def held_of(folder: Path, sizes: list[int]) -> tuple[list[int], HeldBlocks]:
    """The numbers in tables of these sizes, and their blocks as a stage makes them."""
    tables, start = [], 0
    for size in sizes:
        tables.append(pa.table({"n": pa.array(range(10**12 + start, 10**12 + start + size), pa.int64())}))
        start += size
    return list(range(10**12, 10**12 + start)), HeldBlocks(list(RowBlocks(str(folder)).blocks(iter(tables))))


def numbers_in(pieces: list[HeldPieces]) -> list[int]:
    told = list[float]()
    batches = [batch for one in pieces for batch in one.rows(told.append)]
    assert not told, "blocks are no input of the job"
    assert sum(one.input_bytes for one in pieces) == 0
    return [row["m"] for batch in batches for row in batch.to_pylist()]


@given(sizes=st.lists(st.sampled_from([0, 1, 3, 5000]), max_size=6), tasks=st.integers(1, 5))
def test_tasks_read_each_row_once(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], tasks: int) -> None:
    numbers, held = held_of(tmp_path_factory.mktemp("blocks"), sizes)
    given_ = TaskInput((), [HeldPieces(queries, tuple(held.blocks)) for queries in ((QUERY,), (QUERY, QUERY))])
    assert given_.is_empty == (not numbers)
    dealt = given_.dealt(tasks)
    assert len(dealt) <= tasks
    for pieces in (dealt, given_.in_one_task()):
        found = numbers_in([one for task in pieces for one in task if isinstance(one, HeldPieces)])
        assert sorted(found) == sorted(3 * numbers)


def test_large_blocks_are_in_files_and_their_bytes_count(tmp_path: Path) -> None:
    numbers, held = held_of(tmp_path, [5000, 2])
    kinds = [one.kind for one in held.blocks]
    assert kinds == [BlockKind.PLACE, BlockKind.ROWS]
    large, small = held.blocks
    assert large.size >= BLOCK_BYTES_MIN > small.size == len(small.content)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == large.size
    pieces = HeldPieces((QUERY,), tuple(held.blocks))
    assert TaskInput((), [pieces]).effort_bytes == large.size + small.size
    assert numbers_in([pieces]) == numbers


def test_a_file_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    _, held = held_of(tmp_path, [5000])
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(CorruptStateError, match="on their way to their subtask"):
        numbers_in([HeldPieces((QUERY,), tuple(held.blocks))])


def test_a_block_for_a_subtask_is_no_row_of_another() -> None:
    held = HeldBlocks([block_batch(1, BlockKind.ROWS, b"a"), block_batch(0, BlockKind.ROWS, b"b")])
    assert held.blocks == [HeldBlock("rows", b"a"), HeldBlock("rows", b"b")]
