"""Blocks of a table: its rows in their order, of its schema, in few bytes; oracle: the table itself."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.tasks.blocks import BLOCK_BYTES, blocks_of, cell_of, decode_block

EDGES = [edge + step for bits in (7, 15, 31, 63) for edge in (-(2**bits), 2**bits - 1) for step in (-1, 0, 1)]
INT64S = st.one_of(st.sampled_from([edge for edge in EDGES if -(2**63) <= edge < 2**63]), st.integers(-300, 300))
COLUMNS = st.lists(
    st.tuples(st.one_of(st.none(), INT64S), st.floats(allow_nan=False), st.one_of(st.none(), st.binary(max_size=3))),
    max_size=12,
)


@given(COLUMNS, st.integers(0, 3))
def test_decoded_blocks_are_the_table(rows: list[tuple[int | None, float, bytes | None]], start: int) -> None:
    integers, floats, binaries = zip(*rows, strict=True) if rows else ((), (), ())
    schema = pa.schema(
        [
            pa.field("i", pa.int64()),
            pa.field("narrow", pa.int16(), nullable=False),
            pa.field("f", pa.float64(), nullable=False),
            pa.field("b", pa.large_binary()),
        ]
    )
    table = pa.table([integers, list(range(len(rows))), floats, binaries], schema=schema).slice(start)
    blocks = [decode_block(block) for block in blocks_of(table)]
    found = pa.concat_tables(blocks) if blocks else schema.empty_table()
    assert found.schema.equals(schema, check_metadata=True)
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("values", "bytes_each"),
    [([-128, 127], 1), ([-129, 0], 2), ([0, 2**15], 4), ([-(2**31) - 1, 0], 8), ([2**63 - 1, -(2**63)], 8)],
)
def test_integers_travel_as_narrow_as_they_are(values: list[int], bytes_each: int) -> None:
    rows = 16_000
    (block,) = blocks_of(pa.table({"n": np.resize(np.array(values, np.int64), rows)}))
    assert bytes_each * rows <= block.size < bytes_each * rows + 1_000


def test_blocks_are_of_about_one_size() -> None:
    table = pa.table({"x": np.random.default_rng(1).random(4 * BLOCK_BYTES // 8)})
    blocks = list(blocks_of(table))
    assert len(blocks) == 4
    assert all(BLOCK_BYTES <= block.size < BLOCK_BYTES + 1_000 for block in blocks)
    assert list(blocks_of(table.slice(0, 0))) == []


def test_a_row_that_is_larger_than_a_block_has_its_own() -> None:
    table = pa.table({"text": pa.array([b"a" * 2 * BLOCK_BYTES, b"b" * 2 * BLOCK_BYTES], pa.large_binary())})
    assert [decode_block(block).num_rows for block in blocks_of(table)] == [1, 1]


def test_a_cell_is_the_block_itself() -> None:
    (block,) = blocks_of(pa.table({"x": np.arange(9.0)}))
    cell = cell_of(block)
    cell.validate(full=True)
    assert cell.to_pylist() == [block.to_pybytes()]
    assert cell.buffers()[2].address == block.address, "a copy would be made of each block of an epoch"
    assert cell_of(b"").to_pylist() == [b""]
