"""Kept values: distinct counts, collected lists and sets, against lists in plain Python, however the rows are split."""

import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import aggregate_function
from tests.operators.arguments import ARGUMENTS, ORDERED, STORED
from tests.operators.calls import Asked, Row, cases, expected, found, same
from tests.random_cases import random_cases

KEEPING = ("count_distinct", "collect_set", "collect_list")
TYPES = {name: st.sampled_from(STORED if name == "collect_list" else ORDERED) for name in KEEPING}
LIMITS = st.sampled_from([1, 2, 3, 1000])


def asked_of(function: str, data_type: pa.DataType, limit: int, *, has_event_time: bool = True) -> Asked:
    parameters = () if function == "count_distinct" else (limit,)
    return Asked(function, (data_type,), parameters=parameters, has_event_time=has_event_time)


def assert_agrees(asked: Asked, rows: Sequence[Row], cuts: Sequence[int]) -> None:
    results, wanted = found(asked, rows, cuts), expected(asked, rows)
    assert results.keys() == wanted.keys()
    for group, value in wanted.items():
        assert same(results[group], value), (asked, group, results[group], value)


@pytest.mark.parametrize("has_event_time", [True, False])
@pytest.mark.parametrize("function", KEEPING)
@settings(max_examples=random_cases(40))
@given(data=st.data())
def test_what_is_kept_equals_the_oracle_however_the_rows_are_split(
    function: str, has_event_time: bool, data: st.DataObject
) -> None:
    asked = asked_of(function, data.draw(TYPES[function]), data.draw(LIMITS), has_event_time=has_event_time)
    rows, cuts = data.draw(cases(asked.types))
    assert_agrees(asked, rows, cuts)


@pytest.mark.parametrize("function", KEEPING)
@settings(max_examples=random_cases(15))
@given(data=st.data())
def test_the_order_of_the_rows_changes_nothing(function: str, data: st.DataObject) -> None:
    asked = asked_of(function, data.draw(TYPES[function]), data.draw(LIMITS))
    rows, cuts = data.draw(cases(asked.types))
    before, after = found(asked, rows, cuts), found(asked, data.draw(st.permutations(rows)), cuts)
    assert all(same(after[group], before[group]) for group in before), "exactly, ties of equal event times included"


def test_all_nan_are_one_value_and_so_are_the_zeros_in_a_set_but_not_in_a_list() -> None:
    rows = [Row(0, 0, (value,)) for value in (0.0, -0.0, float("nan"), -float("nan"), 1.0)]
    assert found(asked_of("count_distinct", pa.float64(), 0), rows) == {0: 3}
    assert same(found(asked_of("collect_set", pa.float64(), 9), rows)[0], [0.0, 1.0, float("nan")])
    collected = found(asked_of("collect_list", pa.float64(), 9), rows)[0]
    assert same(collected, [-0.0, 0.0, 1.0, float("nan"), float("nan")]), "by value within one event time"


def test_a_list_keeps_the_first_values_in_time_and_their_order() -> None:
    rows = [Row(0, time, (text,)) for time, text in ((5, "e"), (1, "b"), (3, None), (1, "a"), (2, "b"), (4, "d"))]
    asked = asked_of("collect_list", pa.string(), 4)
    assert found(asked, rows, [2, 4]) == {0: ["a", "b", "b", "d"]}


@pytest.mark.parametrize(("function", "nothing"), [("count_distinct", 0), ("collect_set", []), ("collect_list", [])])
def test_a_group_of_nothing_but_null_has_kept_nothing(function: str, nothing: object) -> None:
    for data_type in ARGUMENTS:
        asked = asked_of(function, data_type, 3)
        assert found(asked, [Row(0, 0, (None,)), Row(0, 1, (None,))], [1]) == {0: nothing}, data_type


@pytest.mark.parametrize("data_type", [pa.int64(), pa.string(), pa.decimal128(38, 2)], ids=str)
def test_a_list_has_the_type_of_its_values(data_type: pa.DataType) -> None:
    for function in ("collect_list", "collect_set"):
        assert asked_of(function, data_type, 2).built.result_type == pa.list_(data_type)
    assert asked_of("count_distinct", data_type, 2).built.result_type == pa.int64()


@pytest.mark.parametrize("function", [*KEEPING, "approx_count_distinct"])
@pytest.mark.parametrize("data_type", [pa.list_(pa.duration("s")), pa.null()], ids=str)
def test_a_type_without_an_order_is_refused_in_full(function: str, data_type: pa.DataType) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, data_type, has_event_time=True, where="job.yaml:7", parameters=(3,))
    assert str(caught.value) == (
        f"job.yaml:7: {function} does not take values of this type. Cast the argument in a sql step, for example "
        f"CAST(x AS STRING), or name a field of it. type={data_type}"
    )


@pytest.mark.parametrize("function", KEEPING)
def test_functions_that_keep_values_are_shipped_to_tasks(function: str) -> None:
    built = asked_of(function, pa.string(), 2).built
    assert pickle.loads(pickle.dumps(built)) == built
