"""The order of keyed rows: Python's stable sort by (key group, key, time), and verified where it is claimed."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InternalError
from mixedmode.sort import check_sorted, sort_order, sort_table
from tests.sort.keyed_tables import keyed_table, keyed_tables, python_sorted, row_keys


@given(keyed_tables())
def test_sorted_table_is_the_stable_sort_by_group_key_and_time(table: pa.Table) -> None:
    found = sort_table(table)
    found.validate(full=True)
    assert found.schema == table.schema, "sorting changes no column"
    assert found.to_pylist() == python_sorted(table)


@given(keyed_tables(), st.integers(0, 40), st.integers(0, 40))
def test_sort_order_of_a_slice_is_that_of_its_rows(table: pa.Table, start: int, count: int) -> None:
    part = table.slice(min(start, table.num_rows), count)
    order = sort_order(part)
    assert order.dtype == np.int64, "row numbers are int64"
    assert part.take(order).to_pylist() == python_sorted(part)


@given(keyed_tables(max_rows=6))
def test_a_table_is_sorted_exactly_when_its_rows_are(table: pa.Table) -> None:
    keys = row_keys(table)
    bad = next((i for i in range(1, len(keys)) if keys[i] < keys[i - 1]), None)
    if bad is None:
        check_sorted(table)
    else:
        with pytest.raises(InternalError, match=rf"row={bad}, "):
            check_sorted(table)


@given(keyed_tables())
def test_a_sorted_table_passes_every_check(table: pa.Table) -> None:
    found = sort_table(table)
    check_sorted(found)


def test_a_table_in_order_is_not_copied() -> None:
    table = keyed_table([(0, b"a", 1), (0, b"a", 1), (0, b"b", 0)], pa.binary(1))
    found = sort_table(table)
    for name in table.column_names:
        assert _addresses(found.column(name)) == _addresses(table.column(name)), name


def _addresses(column: Any) -> list[int | None]:
    return [buffer and buffer.address for buffer in column.chunk(0).buffers()]


def test_an_unsorted_table_is_refused_with_the_first_bad_row() -> None:
    table = keyed_table([(0, b"a", 1), (2, b"b", 5), (2, b"b", 4), (1, b"c", 0)], pa.binary(1))
    with pytest.raises(InternalError) as caught:
        check_sorted(table)
    assert str(caught.value) == (
        "rows that must come sorted by (key group, key, time) do not, so merging them would lose the order without a "
        "word. This is a defect in mixedmode: report it with this message. "
        "row=2, above=(key_group 2, key 62, time 5), here=(key_group 2, key 62, time 4)"
    )


@pytest.mark.parametrize("row", [1, 65_535, 65_536, 65_537, 199_999])
def test_a_row_out_of_order_is_found_in_any_block_of_a_large_table(row: int) -> None:
    keys = np.arange(200_000, dtype=">u8")
    keys[row] = 0 if row > 1 else keys[row]
    keys[0] = 0 if row > 1 else 2
    groups = pa.array(np.zeros(len(keys), dtype=np.uint16))
    table = pa.table({"_key_group": groups, "_key": pa.array(keys.view("V8").tolist(), pa.binary(8))})
    with pytest.raises(InternalError, match=rf"row={row}, "):
        check_sorted(table)


@pytest.mark.parametrize(
    ("keys", "times"),
    [
        (2**63, 1),
        (2**63, 2**62),
        (10**6, 10**15),
        (20, 2**62),
        (1, 2**62),
        (1, 1),
    ],
    ids=["distinct", "distinct-with-time", "repeating", "few-keys", "one-key", "all-equal"],
)
def test_large_tables_sort_as_numpy_sorts_them(keys: int, times: int) -> None:
    rng, n = np.random.default_rng(11), 200_000
    key, time = rng.integers(0, keys, n), rng.integers(0, times, n)
    group = (key % 128).astype(np.uint16)
    encoded = pa.array(key.astype(">i8").view("V8").tolist(), pa.binary(8))
    table = pa.table({"_key_group": pa.array(group), "_key": encoded, "_time": pa.array(time)})
    assert np.array_equal(sort_order(table), np.lexsort((time, key, group))), "lexsort is stable, so is sort_order"


def test_an_empty_table_and_one_row_are_sorted() -> None:
    for rows in ([], [(3, b"k", 9)]):
        table = keyed_table(rows, pa.large_binary())
        check_sorted(table)
        assert sort_table(table).equals(table), rows


def test_null_in_a_sort_column_is_a_defect_of_the_caller() -> None:
    table = pa.table({"_key_group": pa.array([1], pa.uint16()), "_key": pa.array([None], pa.large_binary())})
    with pytest.raises(AssertionError):
        sort_table(table)
