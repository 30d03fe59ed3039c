"""Slots: a row's slot holds its value, taken slots are those with rows, and only ranges nearly full have any."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import slots_of

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")]


def column_of(values: list[int], data_type: pa.DataType, skipped: int = 0) -> pa.Array:
    width = pa.int32() if data_type == pa.date32() else pa.int64()
    integers = pa.array([0] * skipped + values, data_type if pa.types.is_integer(data_type) else width)
    return integers.view(data_type)[skipped:]


@given(
    values=st.lists(st.integers(-9, 9), min_size=1, max_size=40),
    low=st.sampled_from([0, -100, 100, -(2**63) + 9, 2**63 - 10]),
    data_type=st.sampled_from(TYPES),
    skipped=st.integers(0, 2),
)
def test_a_slot_holds_the_value_of_its_rows(values: list[int], low: int, data_type: pa.DataType, skipped: int) -> None:
    if data_type != pa.int64() and abs(low) > 100:
        low = 0
    wanted = [value + low for value in values]
    column = column_of(wanted, data_type, skipped)
    size = max(values) - min(values) + 1
    slots = slots_of(column)
    if size > len(values) or 2 * len(set(values)) < size:
        assert slots is None
        return
    assert slots is not None
    assert slots.keys.type == data_type
    assert len(slots.keys) == len(slots.is_taken) == size
    assert slots.keys.take(pa.array(slots.codes)).equals(column)
    assert np.flatnonzero(slots.is_taken).tolist() == sorted({int(code) for code in slots.codes})


@pytest.mark.parametrize(
    "column",
    [
        pa.array([], pa.int64()),
        pa.array([1, None, 2], pa.int64()),
        pa.array([1.0, 2.0]),
        pa.array(["a", "b"]),
        pa.array([True, False]),
        pa.array([-(2**63), 2**63 - 1], pa.int64()),
    ],
    ids=["empty", "null", "double", "string", "bool", "the whole range"],
)
def test_other_columns_have_none(column: Any) -> None:
    assert slots_of(column) is None
