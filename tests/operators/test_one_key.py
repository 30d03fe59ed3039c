"""Results of one key are those of arrays, or are left to them."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate.one_key import one_key
from mixedmode.state import RowCodec
from tests.operators.partials import aggregator_of, fold

PLAIN = [
    ("count", None),
    ("count", pa.string()),
    ("sum", pa.int64()),
    ("sum", pa.int8()),
    ("sum", pa.float64()),
    ("avg", pa.int64()),
    ("avg", pa.float64()),
    ("min", pa.int8()),
    ("max", pa.int64()),
    ("bit_or", pa.int64()),
    ("count_if", pa.bool_()),
]
NEEDS_ARRAYS = [
    ("min", pa.string()),
    ("max", pa.timestamp("us", "UTC")),
    ("max", pa.float64()),
    ("sum", pa.decimal128(20, 2)),
    ("stddev_pop", pa.float64()),
    ("bool_and", pa.bool_()),
]


def values_of(kind: pa.DataType | None) -> st.SearchStrategy[Any]:
    if kind is None or pa.types.is_string(kind):
        return st.none() | st.just("a")
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_float64(kind):
        return st.none() | st.floats()
    limit = 2 ** (kind.bit_width - 1)
    return st.none() | st.integers(-limit, limit - 1)


@given(st.data())
def test_the_results_are_those_of_arrays(data: st.DataObject) -> None:
    calls = data.draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=12))
    aggregator, groups = aggregator_of(*calls), [0, 0, 0, 1, 1, 2]
    rows = [data.draw(st.lists(values_of(kind), min_size=6, max_size=6)) for _, kind in calls]
    arguments = [pa.array(row, kind or pa.string()) for row, (_, kind) in zip(rows, calls, strict=True)]
    state = fold(aggregator, groups, arguments).columns
    of_one = one_key(aggregator)
    assert of_one is not None
    for key, packed in enumerate(RowCodec(aggregator.state_fields).pack(state)):
        columns = [column.slice(key, 1) for column in state]
        found = of_one(packed)
        if found is None:
            with pytest.raises(Exception, match="too large"):
                aggregator.results(columns)
        else:
            expected = [column.to_pylist()[0] for column in aggregator.results(columns)]
            assert list(map(repr, found)) == list(map(repr, expected))  # NaN, and the sign of zero, too


@pytest.mark.parametrize("call", NEEDS_ARRAYS)
def test_other_results_are_left_to_arrays(call: tuple[str, pa.DataType]) -> None:
    assert one_key(aggregator_of(("count", None), call)) is None


@pytest.mark.parametrize("value", [b"", bytes(3), b"\x02\x00\x01" + bytes(8), b"\x01\x01\x01" + bytes(8), bytes(12)])
def test_a_value_of_another_length_or_version_is_left_to_be_refused(value: bytes) -> None:
    of_one = one_key(aggregator_of(("count", None)))
    assert of_one is not None
    assert of_one(value) is None
    assert of_one(b"\x01\x00\x01" + (7).to_bytes(8, "little")) == [7]
