"""Aggregate functions against an oracle, however the rows are split; their types; what they say when they cannot."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import aggregate_function
from tests.operators.arguments import (
    ARGUMENTS,
    DECIMALS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    STORED,
    column,
    decimal_of,
    values_of,
)
from tests.operators.oracle import FUNCTIONS, Record, aggregate, close, identical, tolerance
from tests.operators.partials import Partials, aggregator_of, fold, merge, stored
from tests.random_cases import random_cases

NUMERIC = ("sum", "avg", "sum_distinct", "avg_distinct", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "median")
BOOLEAN = ("bool_and", "bool_or")
WHOLE = ("bit_and", "bit_or", "bit_xor")


def types_of(function: str) -> Sequence[pa.DataType]:
    if function in WHOLE:
        return INTEGERS
    return (
        NUMBERS
        if function in NUMERIC
        else [pa.bool_()]
        if function in BOOLEAN
        else ORDERED
        if function in ("min", "max", "mode", "mode_descending")
        else STORED
    )


@dataclass(frozen=True, slots=True)
class Case:
    """Records by group, in an order, cut into pieces that are folded one by one."""

    function: str
    data_type: pa.DataType
    records: list[tuple[int, Record]]
    cuts: list[int]


@st.composite
def cases(draw: st.DrawFn, function: str) -> Case:
    data_type = draw(st.sampled_from(types_of(function)))
    value = st.none() | values_of(data_type)
    pool = st.sampled_from(draw(st.lists(value, min_size=1, max_size=3)))
    record = st.builds(Record, value | pool, st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1))
    records = draw(st.lists(st.tuples(st.integers(0, 2), record), min_size=1, max_size=14))
    cuts = draw(st.lists(st.integers(0, len(records)), max_size=3))
    return Case(function, data_type, records, sorted(cuts))


def result_of(case: Case) -> dict[int, Any]:
    """{group: result}: each piece is folded, stored and read back, and then merged with those before it."""
    aggregator = aggregator_of((case.function, case.data_type))
    total: Partials | None = None
    for start, end in zip([0, *case.cuts], [*case.cuts, len(case.records)], strict=True):
        if start == end:
            continue
        groups, records = zip(*case.records[start:end], strict=True)
        values = column([r.value for r in records], case.data_type, skipped=start % 3)
        piece = stored(aggregator, fold(aggregator, groups, [values], times_us=[r.time_us for r in records]))
        total = piece if total is None else stored(aggregator, merge(aggregator, [total, piece]))
    assert total is not None
    assert [c.type for c in total.columns] == [f.type for f in aggregator.state_fields], "types do not depend on data"
    (results,) = aggregator.results(total.columns)
    results.validate(full=True)
    assert results.type == aggregator.result_fields[0].type
    return dict(zip(total.groups.tolist(), results.to_pylist(), strict=True))


def assert_agrees(found: Any, case: Case, records: list[Record]) -> None:
    expected = aggregate(case.function, records, case.data_type)
    if case.function in NUMERIC and isinstance(expected, float):
        assert close(found, expected, within=tolerance(case.function, records)), (found, expected, records)
    else:
        assert identical(found, expected), (found, expected, records)


def fits(case: Case) -> bool:
    """Return whether the sums fit their type; where they do not, the function must refuse."""
    by_group: dict[int, list[Record]] = {}
    for group, record in case.records:
        by_group.setdefault(group, []).append(record)
    results = [aggregate(case.function, records, case.data_type) for records in by_group.values()]
    if case.data_type in INTEGERS and case.function.startswith("sum"):
        return all(r is None or -(2**63) <= r < 2**63 for r in results)
    if case.data_type in DECIMALS and case.function.startswith(("sum", "avg")):
        return all(r is None or len(r.as_tuple().digits) <= 38 for r in results)
    return True


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=random_cases(13))
@given(data=st.data())
def test_results_equal_the_oracle_however_the_rows_are_split(function: str, data: st.DataObject) -> None:
    case = data.draw(cases(function))
    if not fits(case):
        with pytest.raises(InvalidJobError, match=rf": {function[:3]} is too large for its result type"):
            result_of(case)
        return
    for group, found in result_of(case).items():
        assert_agrees(found, case, [record for g, record in case.records if g == group])


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=random_cases(10))
@given(data=st.data())
def test_the_order_of_the_rows_changes_nothing(function: str, data: st.DataObject) -> None:
    case = data.draw(cases(function).filter(fits))
    shuffled = Case(function, case.data_type, data.draw(st.permutations(case.records)), case.cuts)
    before, after = result_of(case), result_of(shuffled)
    assert before.keys() == after.keys()
    for group, found in after.items():
        records = [record for g, record in case.records if g == group]
        if function in NUMERIC and isinstance(found, float):
            assert close(found, before[group], within=2 * tolerance(function, records)), "rounding only"
        else:
            assert identical(found, before[group]), "exactly, ties of equal event times included"


@pytest.mark.parametrize(
    ("function", "data_type", "result_type"),
    [
        *(("count", t, pa.int64()) for t in (pa.string(), pa.list_(pa.int8()), None)),
        *(("sum", t, pa.int64()) for t in INTEGERS),
        *((f, t, pa.float64()) for t in FLOATS for f in NUMERIC),
        *(("sum_distinct", t, pa.int64()) for t in INTEGERS),
        *((f, t, pa.float64()) for t in INTEGERS for f in ("avg", "avg_distinct")),
        *(("var_samp", t, pa.float64()) for t in (*INTEGERS, *DECIMALS)),
        ("sum", pa.decimal128(5, 2), pa.decimal128(15, 2)),
        ("sum", pa.decimal128(38, 10), pa.decimal128(38, 10)),
        ("sum_distinct", pa.decimal128(5, 2), pa.decimal128(15, 2)),
        ("avg", pa.decimal128(5, 2), pa.decimal128(9, 6)),
        ("avg_distinct", pa.decimal128(38, 10), pa.decimal128(38, 14)),
        ("avg", pa.decimal128(38, 10), pa.decimal128(38, 14)),
        ("avg", pa.decimal128(38, 36), pa.decimal128(38, 38)),
        *((f, t, t) for t in ARGUMENTS for f in ("min", "max", "first", "last", "mode")),
        *((f, pa.bool_(), pa.bool_()) for f in BOOLEAN),
        *((f, t, t) for f in WHOLE for t in INTEGERS),
        *((f, t, pa.float64()) for f in ("median", "skewness", "kurtosis") for t in NUMBERS),
        ("count_if", pa.bool_(), pa.int64()),
    ],
    ids=str,
)
def test_result_types_are_those_of_spark(function: str, data_type: pa.DataType | None, result_type: Any) -> None:
    assert aggregator_of((function, data_type)).result_fields[0].type == result_type


def test_a_function_of_nothing_but_null_is_null_and_its_count_is_zero() -> None:
    for function in FUNCTIONS:
        for data_type in types_of(function):
            case = Case(function, data_type, [(0, Record(None)), (0, Record(None))], [1])
            assert result_of(case) == {0: 0 if function == "count" else None}, (function, data_type)


def test_count_of_a_star_counts_rows_whatever_is_in_them() -> None:
    aggregator = aggregator_of(("count", None), ("count", pa.int8()))
    partials = fold(aggregator, [0, 0, 1], [pa.nulls(3, pa.int8()), pa.array([None, 1, None], pa.int8())])
    assert [c.to_pylist() for c in aggregator.results(partials.columns)] == [[2, 1], [1, 0]]


@pytest.mark.parametrize("function", ["var_samp", "stddev_samp"])
def test_a_sample_of_one_has_no_spread_and_a_population_of_one_has_none_to_see(function: str) -> None:
    assert result_of(Case(function, pa.int64(), [(0, Record(5))], [])) == {0: None}
    population = function.replace("samp", "pop")
    assert result_of(Case(population, pa.int64(), [(0, Record(5))], [])) == {0: 0.0}


@pytest.mark.parametrize(("function", "expected"), [("first", None), ("last", "b")])
def test_ties_in_event_time_are_settled_by_value_and_null_is_the_smallest(function: str, expected: Any) -> None:
    records = [(0, Record(value, 7)) for value in ("b", None, "a")]
    for at in range(3):
        assert result_of(Case(function, pa.string(), records[at:] + records[:at], [1])) == {0: expected}


def test_an_int64_sum_may_leave_its_type_on_the_way_and_come_back() -> None:
    values = [2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5]
    records = [(0, Record(value)) for value in values]
    for cuts in ([], [1], [2], [1, 2, 3, 4]):
        assert result_of(Case("sum", pa.int64(), records, cuts)) == {0: 3}


@pytest.mark.parametrize(
    ("values", "fitting"),
    [([2**63 - 1, 0], True), ([2**63 - 1, 1], False), ([-(2**63), 0], True), ([-(2**63), -1], False)],
)
def test_an_int64_sum_is_refused_exactly_beyond_the_ends_of_its_type(values: list[int], fitting: bool) -> None:
    case = Case("sum", pa.int64(), [(0, Record(value)) for value in values], [1])
    if fitting:
        assert result_of(case) == {0: sum(values)}
        return
    with pytest.raises(InvalidJobError) as caught:
        result_of(case)
    assert str(caught.value) == (
        "job.yaml:7: sum is too large for its result type, and a wrong number would be worse than none. "
        "Cast the argument to a wider type in a sql step, for example CAST(x AS DECIMAL(38, 0)) or DOUBLE. "
        "result_type=int64, keys_affected=1"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "Spark ships errors between processes"


def test_a_decimal_sum_beyond_38_digits_is_refused_with_the_number_of_keys() -> None:
    largest = decimal_of(10**38 - 1, 0)
    records = [(group, Record(largest)) for group in (0, 0, 1, 2, 2)]
    with pytest.raises(
        InvalidJobError, match=r": sum is too large .* result_type=decimal128\(38, 0\), keys_affected=2$"
    ):
        result_of(Case("sum", pa.decimal128(38, 0), records, []))


def test_a_decimal_average_that_needs_more_digits_than_there_are_is_refused() -> None:
    records = [(0, Record(decimal_of(10**38 - 1, 0)))]
    with pytest.raises(
        InvalidJobError, match=r": avg is too large .* result_type=decimal128\(38, 4\), keys_affected=1$"
    ):
        result_of(Case("avg", pa.decimal128(38, 0), records, []))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("data_type", [pa.decimal128(5, 0), pa.decimal128(20, 0)], ids=str)
def test_a_decimal_average_rounds_half_away_from_zero(data_type: pa.DataType, sign: int) -> None:
    records = [(0, Record(Decimal(sign if row == 0 else 0))) for row in range(2**5)]  # 1/32 = 0.03125
    assert result_of(Case("avg", data_type, records, [3])) == {0: sign * Decimal("0.0313")}


@pytest.mark.parametrize("function", NUMERIC)
def test_a_number_is_asked_for_in_full(function: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, pa.string(), has_event_time=True, where="job.yaml:7")
    assert str(caught.value) == (
        f"job.yaml:7: {function} needs a number, and its argument is not one. Cast it in a sql step, for example "
        "CAST(x AS DOUBLE). type=string"
    )


@pytest.mark.parametrize("data_type", [pa.float64(), pa.decimal128(9, 0), pa.bool_(), pa.string()], ids=str)
@pytest.mark.parametrize("function", WHOLE)
def test_a_whole_number_is_asked_for_in_full(function: str, data_type: pa.DataType) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, data_type, has_event_time=True, where="job.yaml:7")
    assert str(caught.value) == (
        f"job.yaml:7: {function} needs a whole number, and its argument is not one. Cast it in a sql step, for example "
        f"CAST(x AS BIGINT). type={data_type}"
    )


@pytest.mark.parametrize("function", [*BOOLEAN, "count_if"])
def test_a_boolean_is_asked_for_in_full(function: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, pa.int32(), has_event_time=True, where="job.yaml:7")
    assert str(caught.value) == (f"job.yaml:7: {function} needs a boolean, and its argument is not one. type=int32")


@pytest.mark.parametrize("function", ["first", "last"])
def test_an_event_time_is_asked_for_in_full(function: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, pa.int32(), has_event_time=False, where="job.yaml:7")
    assert str(caught.value) == (
        f"job.yaml:7: {function} goes by event time, and this step's input has none. Set `event-time` on the source, "
        "and keep that column in the sql steps before this one; the result of a keyed step has no event time."
    )


@pytest.mark.parametrize("function", ["min", "max", "first", "last", "mode"])
@pytest.mark.parametrize("data_type", [pa.list_(pa.null()), pa.null(), pa.time64("ns"), pa.duration("us")], ids=str)
def test_a_type_without_an_order_is_refused_in_full(function: str, data_type: pa.DataType) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, data_type, has_event_time=True, where="job.yaml:7")
    assert str(caught.value) == (
        f"job.yaml:7: {function} does not take values of this type. Cast the argument in a sql step, for example "
        f"CAST(x AS STRING), or name a field of it. type={data_type}"
    )
