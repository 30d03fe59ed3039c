"""The most frequent value: of ties the least or the greatest, over values of all types and over retracted rows."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.arguments import ORDERED, values_of
from tests.operators.calls import Asked, Row, found
from tests.operators.oracle import Record, aggregate, identical
from tests.operators.partials import Partials, aggregator_of, fold, merge
from tests.random_cases import random_cases


@pytest.mark.parametrize("function", ["mode", "mode_descending"])
@settings(max_examples=random_cases(30))
@given(data=st.data())
def test_retracted_rows_do_not_count(function: str, data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(ORDERED))
    pool = data.draw(st.lists(values_of(data_type), min_size=1, max_size=3))
    kept = data.draw(st.lists(st.none() | st.sampled_from(pool), min_size=1, max_size=8))
    gone = data.draw(st.lists(st.sampled_from(pool), max_size=6))
    changes = data.draw(st.permutations([*((v, 1) for v in [*kept, *gone]), *((v, -1) for v in gone)]))
    aggregator, total = aggregator_of((function, data_type)), list[Partials]()
    for value, weight in changes:
        total.append(fold(aggregator, [0], [pa.array([value], data_type)], weights=[weight]))
    (results,) = aggregator.results(merge(aggregator, total).columns)
    assert identical(results[0].as_py(), aggregate(function, [Record(value) for value in kept], data_type))


@pytest.mark.parametrize(
    ("values", "data_type", "least", "greatest"),
    [
        ([3, 1, 3, 1, 2], pa.int8(), 1, 3),
        (["b", None, None, "a", "b"], pa.string(), "b", "b"),
        (["", "\x00"], pa.binary(), b"", b"\x00"),
        ([0.0, -0.0, 1.0], pa.float64(), 0.0, 0.0),
        ([-0.0], pa.float32(), 0.0, 0.0),
        ([math.nan, -math.nan, math.inf], pa.float64(), math.nan, math.nan),
        ([math.nan, math.inf], pa.float64(), math.inf, math.nan),
        ([None, None], pa.date32(), None, None),
    ],
    ids=str,
)
def test_of_ties_one_is_the_mode_and_the_zeros_and_all_nan_are_one_value_each(
    values: list[Any], data_type: pa.DataType, least: Any, greatest: Any
) -> None:
    if pa.types.is_binary(data_type):
        values = [value.encode() for value in values]
    rows = [Row(0, 0, (value,)) for value in values]
    for function, expected in (("mode", least), ("mode_descending", greatest)):
        result = found(Asked(function, (data_type,)), rows, [1])[0]
        assert identical(result, expected), (function, result)


def test_the_state_has_an_entry_for_each_distinct_value() -> None:
    aggregator = aggregator_of(("mode", pa.int64()), ("mode_descending", pa.int64()))
    texts = aggregator_of(("mode", pa.string()))
    numbers = fold(aggregator, [0] * 6, [pa.array([5, 5, 7, 7, 7, 9])] * 2)
    assert [len(column[0].as_py()) for column in numbers.columns] == [3 * 8] * 4
    assert [column.to_pylist() for column in aggregator.results(numbers.columns)] == [[7], [7]]
    words = fold(texts, [0] * 4, [pa.array(["ab", "c", "ab", None])])
    assert [len(column[0].as_py()) for column in words.columns] == [2 * 4, 3, 2 * 8]
