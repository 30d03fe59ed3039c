"""Slices of a map task's input, and how much of one is folded at once."""

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.micro.stages import blocks_of, count_and_sum, map_side
from mixedmode.expressions import Column, Query
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import gathered
from mixedmode.tasks.inner_reads import InnerFold, InnerRead
from mixedmode.tasks.inner_rows import in_blocks

ROWS = 1_000


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.record_batch([pa.nulls(ROWS, pa.int64()).fill_null(number)], names=["v"])


@given(sizes=st.lists(st.integers(0, 50), max_size=6), slice_bytes=st.integers(1, 500))
def test_slices_have_all_rows_in_their_order_and_about_their_size(sizes: list[int], slice_bytes: int) -> None:
    rows = list(range(sum(sizes)))
    parts = iter(rows)
    given_ = [
        pa.record_batch([pa.array([next(parts) for _ in range(size)], pa.int64())], names=["v"]) for size in sizes
    ]
    found = list(gathered(iter(given_), slice_bytes))
    assert [value for table in found for value in table["v"].to_pylist()] == rows
    assert all(table.num_rows and table["v"].num_chunks == 1 for table in found)
    assert all(table.nbytes <= 2 * max(slice_bytes, 8) for table in found), "the last part is at most another slice"
    assert all(table.nbytes >= slice_bytes for table in found[:-1])


def test_small_rows_count_as_larger_ones() -> None:
    found = list(gathered(batches(40), 10 * ROWS * 8, row_bytes_min=16))
    assert [table.num_rows for table in found] == 8 * [5 * ROWS]


def test_a_slice_is_in_memory_once() -> None:
    before = pa.total_allocated_bytes()
    found = 0
    for rows in gathered(batches(40), 10 * ROWS * 8):
        found += 1
        assert pa.total_allocated_bytes() - before < 1.5 * rows.nbytes
        del rows
    assert found == 4


def test_a_stage_folds_its_rows_for_its_only_reader_as_the_tasks_of_the_reader_would() -> None:
    side = map_side(count_and_sum(), parallelism=2, slice_bytes=4_000)
    query = Query((Column("k", pa.int64()), Column("v", pa.float64())), (), (("_k0", 0), ("_arg0", 1)))
    tables = [
        pa.table({"v": np.arange(rows, dtype=float), "k": np.arange(rows) % 7, "more": ["x"] * rows})
        for rows in (0, 100, 1, 900)
    ]
    made_here = list(InnerFold(side, (query,)).blocks(iter(tables)))
    cells = [in_blocks(table).to_batches() for table in tables]
    read_again = list(InnerRead(side, (query,))(batch for of_table in cells for batch in of_table))
    assert _sums(made_here) == _sums(read_again) != {}
    progress = blocks_of(BlockKind.PROGRESS, made_here)
    assert progress == blocks_of(BlockKind.PROGRESS, read_again)
    assert len(progress) == 2, "one for each subtask"
    (seconds,) = (json.loads(block) for block in blocks_of(BlockKind.PROFILE, made_here))
    assert set(seconds) == {"read input", "fold", "make blocks"}


def _sums(shipped: list[pa.RecordBatch]) -> dict[bytes, tuple[int, float]]:
    """Return the count and the sum of each key in blocks of rows."""
    table = pa.concat_tables([decode_block(block) for block in blocks_of(BlockKind.ROWS, shipped)])
    columns = [column for column in table.column_names if column.startswith("_r")]
    merged = table.group_by("_key").aggregate([(column, "sum") for column in columns])
    return {row["_key"]: tuple(row[f"{column}_sum"] for column in columns) for row in merged.to_pylist()}


@pytest.mark.parametrize(
    ("repeats", "partials"),
    [(2, 24_000), (3, 16_000), (8, 3_000)],
    ids=["twice: in halves", "three times: in halves", "often: as a whole"],
)
def test_a_slice_is_folded_in_fewer_pieces_the_more_its_keys_repeat(repeats: int, partials: int) -> None:
    rows = 24_000
    keys = np.tile(np.arange(rows // repeats), repeats) * 2**40  # its repetitions are as far apart as can be
    batch = pa.record_batch([pa.array(keys), pa.array(np.ones(rows))], names=["_k0", "_arg0"])
    shipped = list(map_side(count_and_sum(), parallelism=2, slice_bytes=16 * rows)(iter([batch])))
    tables = [decode_block(block) for block in blocks_of(BlockKind.ROWS, shipped)]
    assert sum(table.num_rows for table in tables) == partials
    assert sum(sum(table["_r0_0"].to_pylist()) for table in tables) == rows, "every record is counted once"
