"""Exact percentiles: against sorted lists, one giant key, and retracted rows; and what they keep."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate import aggregator_for
from tests.operators.arguments import DECIMALS, decimals
from tests.operators.calls import Asked, Row, found
from tests.operators.oracle import identical
from tests.operators.partials import aggregator_of, fold, merge


def percentile(fraction: float, data_type: pa.DataType) -> Asked:
    return Asked("percentile", (data_type,), parameters=(fraction,))


@given(
    values=st.lists(st.none() | st.integers(-4, 4), min_size=1, max_size=20),
    fraction=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
    cut=st.integers(0, 20),
)
def test_a_percentile_lies_between_its_two_neighbours(values: list[int | None], fraction: float, cut: int) -> None:
    ordered = sorted(value for value in values if value is not None)
    rows = [Row(0, 0, (value,)) for value in values]
    result = found(percentile(fraction, pa.int32()), rows, [min(cut, len(rows))])[0]
    if not ordered:
        assert result is None
        return
    position = (len(ordered) - 1) * fraction
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    assert result == low + (position - math.floor(position)) * (high - low)


@given(
    values=st.lists(st.none() | st.integers(-4, 4), min_size=1, max_size=20),
    share=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]),
    cut=st.integers(0, 20),
    is_descending=st.booleans(),
)
def test_a_discrete_percentile_is_the_first_value_with_the_share_of_rows_up_to_it(
    values: list[int | None], share: float, cut: int, *, is_descending: bool
) -> None:
    ordered = sorted((value for value in values if value is not None), reverse=is_descending)
    asked = Asked(f"percentile_disc{'_descending' * is_descending}", (pa.int16(),), parameters=(share,))
    result = found(asked, [Row(0, 0, (value,)) for value in values], [min(cut, len(values))])[0]
    reached = [value for rank, value in enumerate(ordered, 1) if rank >= share * len(ordered)]
    assert result == (float(reached[0]) if reached else None)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("percentile_disc", [1.0, math.nan], 1.0),
        ("percentile_disc_descending", [1.0, math.nan], math.nan),
        ("percentile_disc", [-0.0, 0.0], -0.0),
        ("percentile_disc", [math.inf, -math.inf, math.inf], math.inf),
        ("percentile_disc_descending", [None], None),
    ],
)
def test_a_discrete_percentile_of_doubles_has_nan_as_the_greatest(
    function: str, values: list[float | None], expected: float | None
) -> None:
    asked = Asked(function, (pa.float64(),), parameters=(0.5,))
    assert identical(found(asked, [Row(0, 0, (value,)) for value in values])[0], expected)


@pytest.mark.parametrize(
    ("values", "data_type", "expected"),
    [
        ([1, 2, 2, 4], pa.int64(), 2.0),
        ([1, 4], pa.int8(), 2.5),
        ([Decimal("1.10"), Decimal("1.25")], pa.decimal128(5, 2), 1.175),
        ([Decimal(10**30), Decimal(10**30)], pa.decimal128(38, 0), 1e30),
        ([float("nan"), 1.0, 2.0], pa.float64(), 2.0),
        ([float("inf"), float("-inf")], pa.float64(), float("nan")),
        ([2**53 + 1, 2**53 + 1], pa.int64(), float(2**53)),
        ([None, None], pa.float32(), None),
    ],
    ids=str,
)
def test_a_median_is_that_of_spark(values: list[Any], data_type: pa.DataType, expected: float | None) -> None:
    result = found(Asked("median", (data_type,)), [Row(0, 0, (value,)) for value in values], [1])[0]
    assert result == (None if expected is None else pytest.approx(expected, nan_ok=True))


@pytest.mark.parametrize("data_type", [t for t in DECIMALS if t.scale], ids=str)
@given(data=st.data())
def test_a_percentile_of_decimals_is_the_double_as_which_a_value_is_read(
    data_type: pa.DataType, data: st.DataObject
) -> None:
    value = data.draw(decimals(data_type.precision, data_type.scale) | decimals(3, data_type.scale))
    for function in ("median", "percentile", "percentile_disc"):
        asked = Asked(function, (data_type,), parameters=() if function == "median" else (0.3,))
        assert found(asked, [Row(0, 0, (value,))]) == {0: float(value)}


def test_one_giant_key_keeps_as_many_entries_as_it_has_distinct_values() -> None:
    values = np.random.default_rng(3).integers(0, 1000, 300_000)
    aggregator = aggregator_of(("median", pa.int64()))
    pieces = [fold(aggregator, [0] * len(part), [pa.array(part)]) for part in np.array_split(values, 7)]
    total = merge(aggregator, pieces)
    assert aggregator.results(total.columns)[0].to_pylist() == [float(np.median(values))]
    assert sum(len(column[0].as_py()) for column in total.columns) == 16 * len(np.unique(values))


def test_percentiles_of_one_argument_share_their_state() -> None:
    functions = {str(p): percentile(p, pa.float64()).built for p in (0.1, 0.5)}
    functions["disc"] = Asked("percentile_disc", (pa.float64(),), parameters=(0.5,)).built
    functions["median"] = Asked("median", (pa.float64(),)).built
    assert len(aggregator_for(functions, arguments=1, counts_rows=False).registers) == 1


def test_values_whose_rows_are_all_retracted_leave_the_state() -> None:
    aggregator = aggregator_of(("median", pa.int64()))
    present = fold(aggregator, [0, 0, 0], [pa.array([1, 5, 5])], weights=[1, 1, 1])
    gone = fold(aggregator, [0, 0], [pa.array([5, 1])], weights=[-1, -1])
    total = merge(aggregator, [present, gone])
    assert aggregator.results(total.columns)[0].to_pylist() == [5.0]
    assert [len(column[0].as_py()) for column in total.columns] == [8, 8]
    nothing = merge(aggregator, [total, fold(aggregator, [0], [pa.array([5])], weights=[-1])])
    assert aggregator.results(nothing.columns)[0].to_pylist() == [None]
    assert [len(column[0].as_py()) for column in nothing.columns] == [0, 0]
