"""Stored keys: byte order is (key group, state id, key), and a state's share of a key group is one range."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.state.keys import after_prefix, range_of_group, stored_keys

GROUPS = st.integers(0, 2**15 - 1)
STATES = st.integers(0, 255)
FIXED = st.binary(min_size=3, max_size=3)


def stored(group: int, state_id: int, key: bytes, key_type: pa.DataType) -> bytes:
    (found,) = stored_keys(np.array([group], np.uint16), pa.array([key], key_type), state_id)
    assert isinstance(found, bytes)
    return found


@pytest.mark.parametrize("key_type", [pa.binary(3), pa.large_binary()], ids=str)
@given(rows=st.lists(st.tuples(GROUPS, STATES, FIXED), max_size=8))
def test_stored_keys_sort_by_group_then_state_then_key(
    key_type: pa.DataType, rows: list[tuple[int, int, bytes]]
) -> None:
    by_bytes = sorted(rows, key=lambda row: stored(row[0], row[1], row[2], key_type))
    assert by_bytes == sorted(rows)


@pytest.mark.parametrize("key_type", [pa.binary(3), pa.large_binary()], ids=str)
@given(rows=st.lists(st.tuples(GROUPS, FIXED), max_size=8), skipped=st.integers(0, 3), state_id=STATES)
def test_many_keys_are_stored_as_one_by_one(
    key_type: pa.DataType, rows: list[tuple[int, bytes]], skipped: int, state_id: int
) -> None:
    groups, keys = np.array([row[0] for row in rows], np.uint16), pa.array([row[1] for row in rows], key_type)
    found = stored_keys(groups[skipped:], keys.slice(skipped), state_id)
    assert list(found) == [stored(group, state_id, key, key_type) for group, key in rows[skipped:]]


@given(group=GROUPS, state_id=STATES, key=st.binary(max_size=4), other=st.tuples(GROUPS, STATES))
def test_the_range_of_a_group_holds_the_keys_of_its_state_and_no_others(
    group: int, state_id: int, key: bytes, other: tuple[int, int]
) -> None:
    start, end = range_of_group(group, state_id)
    assert start <= stored(group, state_id, key, pa.large_binary()) < end
    if other != (group, state_id):
        assert not start <= stored(*other, key, pa.large_binary()) < end


@given(group=GROUPS, state_id=STATES, rest=st.binary(max_size=3), other=st.binary(max_size=6))
def test_what_begins_with_a_prefix_lies_before_what_comes_after_it(
    group: int, state_id: int, rest: bytes, other: bytes
) -> None:
    prefix = stored(group, state_id, rest, pa.large_binary())
    end = after_prefix(prefix)
    assert prefix < end
    assert prefix <= prefix + other < end
    assert (prefix <= other < end) == other.startswith(prefix)


def test_stored_bytes_are_pinned() -> None:
    assert stored(258, 7, b"key", pa.binary(3)) == b"\x01\x02\x07key"
    assert stored(258, 7, b"key", pa.large_binary()) == b"\x01\x02\x07key", "the width of a key's type does not show"
