"""Packed rows: their byte order is the order of the step, and they unpack to the columns that were packed."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.top.rows import OrderColumn, RowLayout, joined_with_lengths, keys_of
from tests.operators.arguments import ARGUMENTS, column
from tests.operators.ordered import By, in_order
from tests.random_cases import random_cases

KEYS = KeySchema((pa.field("k", pa.string()),))
ORDERS = [(descending, nulls_first) for descending in (False, True) for nulls_first in (False, True)]
TYPES = [data_type for data_type in ARGUMENTS if not pa.types.is_large_string(data_type)]


def layout_of(types: list[pa.DataType], by: list[By]) -> RowLayout:
    order = tuple(OrderColumn(types[index], descending, nulls_first) for index, descending, nulls_first in by)
    return RowLayout(KEYS, order, tuple(pa.field(f"c{i}", data_type) for i, data_type in enumerate(types)))


@st.composite
def packed_cases(draw: st.DrawFn) -> tuple[list[pa.DataType], list[By], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    orders = st.tuples(st.integers(0, len(types) - 1), st.sampled_from(ORDERS))
    by = [(index, *order) for index, order in draw(st.lists(orders, max_size=2))]
    row = st.tuples(*(st.none() | ARGUMENTS[data_type] for data_type in types))
    return types, by, draw(st.lists(row, max_size=12))


@given(case=packed_cases(), skipped=st.integers(0, 2))
@settings(max_examples=random_cases(150))
def test_packed_rows_sort_as_the_order_says_and_unpack_to_what_was_packed(case: Any, skipped: int) -> None:
    types, by, rows = case
    layout = layout_of(types, by)
    columns = [column([row[i] for row in rows], data_type, skipped=skipped) for i, data_type in enumerate(types)]
    keys = pa.array(["k\x00"] * len(rows), pa.string())
    _, packed = layout.pack([keys], [columns[index] for index, _, _ in by], columns)
    found = layout.unpack_rows(packed)
    assert [each.type for each in found] == types
    assert repr([each.to_pylist() for each in found]) == repr([each.to_pylist() for each in columns])
    assert layout.unpack_keys(packed)[0].to_pylist() == keys.to_pylist()
    ordered = layout.unpack_rows(pa.array(sorted(packed.to_pylist()), pa.large_binary()))
    wanted = in_order(list(zip(*(each.to_pylist() for each in columns), strict=True)), by)
    assert repr(list(zip(*(each.to_pylist() for each in ordered), strict=True))) == repr(wanted)


@given(keys=st.lists(st.text(max_size=3), max_size=8))
def test_rows_of_a_key_are_neighbours_whatever_follows_the_key(keys: list[str]) -> None:
    layout = layout_of([pa.int8()], [(0, True, False)])
    values = pa.array(range(len(keys)), pa.int8())
    encoded, packed = layout.pack([pa.array(keys, pa.string())], [values], [values])
    assert keys_of(packed).to_pylist() == encoded.to_pylist()
    ordered = keys_of(pa.array(sorted(packed.to_pylist()), pa.large_binary())).to_pylist()
    assert ordered == sorted(encoded.to_pylist())


def test_the_bytes_are_those_of_the_docstring() -> None:
    one = RowLayout(
        KeySchema((pa.field("k", pa.int8()),)),
        (OrderColumn(pa.int8(), descending=True, nulls_first=False),),
        (pa.field("v", pa.int8()),),
    )
    _, packed = one.pack([pa.array([1], pa.int8())], [pa.array([2], pa.int8())], [pa.array([2], pa.int8())])
    assert packed[0].as_py().hex(" ") == "01 81 fe 7d 01 82 00 00 00 02 00 00 00 02"


@pytest.mark.parametrize(("descending", "nulls_first"), ORDERS)
def test_null_comes_where_the_order_says(descending: bool, nulls_first: bool) -> None:
    layout = layout_of([pa.string()], [(0, descending, nulls_first)])
    values = pa.array(["", None, "\x00", "ÿ"])
    _, packed = layout.pack([pa.array(["k"] * 4)], [values], [values])
    found = layout.unpack_rows(pa.array(sorted(packed.to_pylist()), pa.large_binary()))[0].to_pylist()
    others = ["ÿ", "\x00", ""] if descending else ["", "\x00", "ÿ"]
    assert found == ([None, *others] if nulls_first else [*others, None])


def test_a_row_without_other_columns_has_only_its_key() -> None:
    layout = RowLayout(KEYS, (), ())
    _, packed = layout.pack([pa.array(["a", None])], [], [])
    assert layout.unpack_keys(packed)[0].to_pylist() == ["a", None]
    assert layout.unpack_rows(packed) == []
    assert len(joined_with_lengths(pa.array([], pa.large_binary()), [], [])) == 0
