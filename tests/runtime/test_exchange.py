"""Slices of a map task's input."""

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.runtime.exchange import gathered

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


def test_a_slice_is_in_memory_once() -> None:
    before = pa.total_allocated_bytes()
    found = 0
    for rows in gathered(batches(40), 10 * ROWS * 8):
        found += 1
        assert pa.total_allocated_bytes() - before < 1.5 * rows.nbytes
        del rows
    assert found == 4
