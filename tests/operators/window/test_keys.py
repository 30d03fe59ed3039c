"""Keys that hold a time: their order, and the ranges that find them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.keys import KeySchema, encode_keys
from mixedmode.operators.window.keys import (
    TIME_BYTES,
    encoded_times,
    joined,
    leading_times,
    number_keys,
    time_range,
    trailing_times,
)
from mixedmode.state.keys import cut_keys, range_of_group, stored_keys
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.operators.window.runs import FIXED, KEYED

times = st.integers(MIN_TIME_US, MAX_TIME_US) | st.sampled_from([MIN_TIME_US, -1, 0, 1, MAX_TIME_US])
texts = st.text(st.sampled_from("\x00aÿ"), max_size=3)
SCHEMAS = [FIXED, KEYED]


def user_keys(schema: KeySchema, rows: list[tuple[str, int]]) -> pa.Array:
    columns = {"user": [row[0] for row in rows], "shard": [row[1] for row in rows]}
    return encode_keys([pa.array(columns[field.name], field.type) for field in schema.fields], schema)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(st.lists(st.tuples(times, texts, st.integers(0, 3), times), max_size=6))
def test_stored_keys_are_in_order_of_time_and_hold_what_was_put_in(
    schema: KeySchema, rows: list[tuple[int, str, int, int]]
) -> None:
    ends, starts = (np.array([row[i] for row in rows], np.int64) for i in (0, 3))
    keys = user_keys(schema, [row[1:3] for row in rows])
    whole = joined(encoded_times(ends), keys, encoded_times(starts))
    assert leading_times(whole).tolist() == ends.tolist()
    assert trailing_times(whole).tolist() == starts.tolist()
    stored = stored_keys(np.full(len(rows), 3, np.uint16), whole, 1)
    found = cut_keys(stored, schema, before=3 + TIME_BYTES, after=TIME_BYTES)
    assert found.to_pylist() == keys.to_pylist()
    assert found.type == keys.type
    by_value = sorted(range(len(rows)), key=lambda i: (rows[i][0], keys[i].as_py(), rows[i][3]))
    assert sorted(stored) == [stored[i] for i in by_value]


@given(times, times, st.lists(times, max_size=8), st.integers(0, 2**15 - 1))
def test_a_range_of_times_holds_the_times_after_the_first_and_up_to_the_second(
    one: int, other: int, stored_times: list[int], group: int
) -> None:
    after_us, up_to_us = min(one, other), max(one, other)
    if after_us == up_to_us:
        return
    start, end = time_range(group, 1, after_us, up_to_us)
    first, last = range_of_group(group, 1)
    assert first <= start <= end <= last, "it lies in the state's part of the key group"
    whole = joined(encoded_times(np.array(stored_times, np.int64)), user_keys(FIXED, [("", 7)] * len(stored_times)))
    for time, key in zip(stored_times, stored_keys(np.full(len(whole), group, np.uint16), whole, 1), strict=True):
        is_wanted = (after_us == MIN_TIME_US or after_us < time) and time <= up_to_us
        assert (start <= key < end) == is_wanted, time


def test_records_without_a_key_have_one_key_in_one_key_group() -> None:
    found = number_keys([], None, 4, max_parallelism=128)
    assert found.numbers.codes.tolist() == [0, 0, 0, 0]
    assert len(found.encoded) == len(found.groups) == 1
    assert found.groups[0] == number_keys([], None, 1, max_parallelism=128).groups[0]
    assert len(number_keys([], None, 0, max_parallelism=128).encoded) == 0
