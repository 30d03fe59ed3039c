"""`filter (where ...)` after any call: the same aggregate over the rows in which the condition is true."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import Column, aggregate_function, aggregator_for
from mixedmode.operators.aggregate.registers import Filtered, IsTrue, Rows
from mixedmode.operators.aggregate.values import Argument
from tests.operators.calls import Asked, Row, cases, expected, found, same
from tests.operators.partials import fold
from tests.random_cases import random_cases

INT, BOOL = pa.int16(), pa.bool_()
CALLS: dict[str, Asked] = {
    name: Asked(name, (BOOL if name == "bool_or" else INT, BOOL, INT), condition=1, **more)  # type: ignore[arg-type]
    for name, more in {
        "count": {},
        "sum": {},
        "max": {},
        "bool_or": {},
        "first": {},
        "last": {},
        "count_distinct": {},
        "approx_count_distinct": {},
        "approx_percentile": {"parameters": (0.5,)},
        "min_by": {"by": 2},
        "max_by": {"by": 2},
        "collect_list": {"parameters": (3,)},
        "collect_set": {"parameters": (3,)},
    }.items()
}


@pytest.mark.parametrize("function", CALLS)
@settings(max_examples=random_cases(10))
@given(data=st.data())
def test_only_rows_in_which_the_condition_is_true_take_part(function: str, data: st.DataObject) -> None:
    asked = CALLS[function]
    rows, cuts = data.draw(cases(asked.types))
    results, wanted = found(asked, rows, cuts), expected(asked, rows)
    assert results.keys() == wanted.keys(), "a group without a chosen row is there"
    for group, value in wanted.items():
        assert same(results[group], value), (function, group, results[group], value)


@pytest.mark.parametrize("condition", [False, None])
@pytest.mark.parametrize("function", CALLS)
def test_a_group_without_a_chosen_row_has_what_no_row_gives(function: str, condition: bool | None) -> None:
    asked = CALLS[function]
    value = True if asked.types[0] == BOOL else 5
    rows = [Row(0, 1, (value, condition, 1)), Row(0, 2, (value, condition, 2))]
    nothing: Any = [] if function.startswith("collect") else 0 if "count" in function else None
    assert found(asked, rows, [1]) == {0: nothing}


def test_count_of_a_star_takes_a_filter() -> None:
    function = aggregate_function("count", None, None, has_event_time=False, where="", condition=Column(0, BOOL))
    aggregator = aggregator_for({"n": function}, arguments=1, counts_rows=False)
    partials = fold(aggregator, [0, 0, 0, 1], [pa.array([True, False, None, False])])
    assert [c.to_pylist() for c in aggregator.results(partials.columns)] == [[1, 0]]


def test_equal_filters_share_their_registers_and_others_do_not() -> None:
    types = (pa.float64(), BOOL, BOOL)
    first, second = (Asked("avg", types, condition=i).built for i in (1, 2))
    total = Asked("sum", types, condition=1).built
    aggregator = aggregator_for({"a": first, "b": second, "c": total}, arguments=3, counts_rows=False)
    assert len(aggregator.registers) == 4, "a sum and a count per condition"


def test_rows_with_a_filter_can_be_retracted_if_they_can_without_it() -> None:
    assert all(register.is_invertible for register in CALLS["sum"].built.registers)
    assert not any(register.is_invertible for register in CALLS["max"].built.registers)
    count = aggregate_function("count", None, None, has_event_time=False, where="", condition=Column(0, BOOL))
    aggregator = aggregator_for({"n": count}, arguments=1, counts_rows=True)
    partials = fold(aggregator, [0, 0, 0], [pa.array([True, True, False])], weights=[1, -1, 1])
    assert [c.to_pylist() for c in aggregator.results(partials.columns)] == [[0]]
    assert aggregator.row_counts(partials.columns).tolist() == [1], "a key is there as long as it has any row"


def test_the_rows_of_a_condition_are_chosen_once() -> None:
    rows = Rows({0: Argument(pa.array([1, 2])), 1: Argument(pa.array([True, False]))}, np.array([5, 6], np.int64))
    chosen = rows.where(IsTrue(1))
    assert chosen is rows.where(IsTrue(1))
    assert chosen.arguments[0].column.to_pylist() == [1]
    assert chosen.times_us is not None
    assert chosen.times_us.tolist() == [5]


def test_a_condition_that_is_no_boolean_is_refused_in_full() -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function("count", None, None, has_event_time=True, where="job.yaml:7", condition=Column(0, INT))
    assert str(caught.value) == ("job.yaml:7: the condition of filter must be a boolean, and it is not one. type=int16")


@pytest.mark.parametrize("function", CALLS)
def test_a_filtered_function_is_shipped_to_tasks(function: str) -> None:
    built = CALLS[function].built
    assert pickle.loads(pickle.dumps(built)) == built
    assert all(isinstance(register, Filtered) for register in built.registers)
