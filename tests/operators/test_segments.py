"""Runs of equal keys in a sorted column."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate.segments import segments


@pytest.mark.parametrize("key_type", [pa.binary(2), pa.large_binary()], ids=str)
@given(rows=st.lists(st.binary(min_size=2, max_size=2), max_size=20).map(sorted), skipped=st.integers(0, 5))
def test_segments_are_the_runs_of_equal_keys(key_type: pa.DataType, rows: list[bytes], skipped: int) -> None:
    grouping, first_rows = segments(pa.array(rows, key_type).slice(skipped))
    keys = rows[skipped:]
    distinct = list(dict.fromkeys(keys))
    assert grouping.size == len(distinct) == len(first_rows)
    assert grouping.codes.tolist() == [distinct.index(key) for key in keys], "codes grow with the keys"
    assert [keys[row] for row in first_rows] == distinct
    assert [keys.index(key) for key in distinct] == first_rows.tolist(), "the first row of each"


def test_keys_that_differ_in_any_one_byte_are_different() -> None:
    width = 9
    for byte in range(width):
        key = bytes(byte) + b"\x01" + bytes(width - byte - 1)
        grouping, _ = segments(pa.array([bytes(width), key], pa.binary(width)))
        assert grouping.codes.tolist() == [0, 1], byte


def test_a_key_that_is_the_beginning_of_the_next_is_another() -> None:
    grouping, first_rows = segments(pa.array([b"a", b"a\x00", b"ab"], pa.large_binary()))
    assert grouping.codes.tolist() == [0, 1, 2]
    assert first_rows.dtype == np.intp
