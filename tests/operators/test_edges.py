"""min_by and max_by against plain Python: NULLs, ties, keys to order by of every type."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import Column, aggregate_function
from tests.operators.arguments import ORDERED, STORED
from tests.operators.calls import Asked, Row, cases, expected, found, same
from tests.random_cases import random_cases

VALUES, ORDERS = st.sampled_from(STORED), st.sampled_from(ORDERED)
FUNCTIONS = ("min_by", "max_by")


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=random_cases(60))
@given(data=st.data())
def test_the_value_beside_the_extreme_equals_the_oracle_however_the_rows_are_split(
    function: str, data: st.DataObject
) -> None:
    asked = Asked(function, (data.draw(VALUES), data.draw(ORDERS)), by=1)
    rows, cuts = data.draw(cases(asked.types))
    shuffled = data.draw(st.permutations(rows))
    results, wanted = found(asked, shuffled, cuts), expected(asked, rows)
    assert results.keys() == wanted.keys()
    for group, value in wanted.items():
        assert same(results[group], value), (asked, group, results[group], value)


@pytest.mark.parametrize(("function", "value"), [("min_by", None), ("max_by", "b")])
def test_ties_are_settled_by_the_value_given_and_null_is_the_smallest(function: str, value: str | None) -> None:
    rows = [Row(0, 0, (text, 7)) for text in ("b", None, "a")] + [Row(0, 0, ("z", None))]
    for at in range(4):
        assert found(Asked(function, (pa.string(), pa.int8()), by=1), rows[at:] + rows[:at], [2]) == {0: value}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_records_without_a_key_to_order_by_do_not_count(function: str) -> None:
    rows = [Row(0, 0, (1, None)), Row(1, 0, (2, None)), Row(1, 0, (3, "x"))]
    assert found(Asked(function, (pa.int32(), pa.string()), by=1), rows, [1, 2]) == {0: None, 1: 3}


def test_the_ends_of_int64_are_keys_like_any_other() -> None:
    rows = [Row(0, 0, (1, 2**63 - 1)), Row(0, 0, (2, None)), Row(0, 0, (3, -(2**63)))]
    types = (pa.int64(), pa.int64())
    assert found(Asked("max_by", types, by=1), rows, [1]) == {0: 1}
    assert found(Asked("min_by", types, by=1), rows, [1]) == {0: 3}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_result_has_the_type_of_the_value(function: str) -> None:
    assert Asked(function, (pa.date32(), pa.string()), by=1).built.result_type == pa.date32()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_key_without_an_order_is_refused_in_full(function: str) -> None:
    by = Column(1, pa.list_(pa.map_(pa.int8(), pa.int8())))
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, pa.string(), has_event_time=True, where="job.yaml:7", by=by)
    assert str(caught.value) == (
        f"job.yaml:7: {function} does not take values of this type. Cast the argument in a sql step, for example "
        "CAST(x AS STRING), or name a field of it. type=list<item: map<int8, int8>>"
    )
