"""Functions of two columns, and the shape of one: against exact fractions, with Spark's rules for what is NULL."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import Column, aggregate_function
from tests.operators.calls import Asked, Row, found
from tests.random_cases import random_cases

_DOUBLES = [0.1, 0.3, -7.5, 100.25, 3.0]
POOLS: Mapping[pa.DataType, list[Any]] = {
    pa.float64(): _DOUBLES,
    pa.float32(): [0.5, -2.0, 7.25],
    pa.int16(): [-3, 0, 5, 1000],
    pa.decimal128(5, 2): [Decimal("0.10"), Decimal("-3.50"), Decimal("99.99")],
}
TYPES = st.sampled_from(list(POOLS))
Fractions = list[Fraction]


def _mean(values: Fractions) -> Fraction:
    return sum(values, Fraction()) / len(values)


def _sum_of_products(one: Fractions, other: Fractions) -> Fraction:
    mean_one, mean_other = _mean(one), _mean(other)
    return sum(((a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True)), Fraction())


def _corr(y: Fractions, x: Fractions) -> float | None:
    spread = _sum_of_products(y, y) * _sum_of_products(x, x)
    return float(_sum_of_products(y, x)) / math.sqrt(spread) if spread else None


def _slope(y: Fractions, x: Fractions) -> Fraction | None:
    return _sum_of_products(y, x) / _sum_of_products(x, x) if _sum_of_products(x, x) else None


def _intercept(y: Fractions, x: Fractions) -> Fraction | None:
    slope = _slope(y, x)
    return None if slope is None else _mean(y) - slope * _mean(x)


def _r2(y: Fractions, x: Fractions) -> float | None:
    if not _sum_of_products(x, x):
        return None
    corr = _corr(y, x)
    return 1.0 if corr is None else corr * corr


PAIRS: dict[str, Callable[[Fractions, Fractions], Any]] = {
    "corr": _corr,
    "covar_pop": lambda y, x: _sum_of_products(y, x) / len(y),
    "covar_samp": lambda y, x: _sum_of_products(y, x) / (len(y) - 1) if len(y) > 1 else None,
    "regr_count": lambda y, x: len(y),
    "regr_avgx": lambda y, x: _mean(x),
    "regr_avgy": lambda y, x: _mean(y),
    "regr_sxx": lambda y, x: _sum_of_products(x, x),
    "regr_syy": lambda y, x: _sum_of_products(y, y),
    "regr_sxy": _sum_of_products,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}


def _power(values: Fractions, exponent: int) -> Fraction:
    mean = _mean(values)
    return sum(((value - mean) ** exponent for value in values), Fraction())


def _skewness(values: Fractions) -> float | None:
    squares = float(_power(values, 2))
    return math.sqrt(len(values)) * float(_power(values, 3)) / squares**1.5 if squares else None


def _kurtosis(values: Fractions) -> float | None:
    squares = _power(values, 2)
    return float(len(values) * _power(values, 4) / squares**2) - 3 if squares else None


SHAPES: dict[str, Callable[[Fractions], Any]] = {"skewness": _skewness, "kurtosis": _kurtosis}


def in_fractions(asked: Asked, rows: Sequence[Row]) -> dict[int, Any]:
    """{group: result}."""
    results: dict[int, Any] = {}
    for group in {row.group for row in rows}:
        members = [row.values for row in rows if row.group == group]
        if asked.condition is not None:
            members = [values for values in members if values[asked.condition]]
        if asked.function in SHAPES:
            seen = [Fraction(values[0]) for values in members if values[0] is not None]
            results[group] = SHAPES[asked.function](seen) if seen else None
            continue
        both = [values for values in members if values[0] is not None and values[1] is not None]
        y, x = [Fraction(values[0]) for values in both], [Fraction(values[1]) for values in both]
        results[group] = PAIRS[asked.function](y, x) if both else 0 if asked.function == "regr_count" else None
    return results


def assert_near(found_one: Any, expected: Any, case: object) -> None:
    if expected is None or isinstance(expected, int):
        assert found_one == expected, case
        return
    within = 1e-6 if isinstance(found_one, Decimal) else 1e-12  # a decimal mean has six digits after the point
    assert float(found_one) == pytest.approx(float(expected), rel=1e-9, abs=within), case


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize("function", [*PAIRS, *SHAPES])
@settings(max_examples=random_cases(10))
@given(data=st.data())
def test_results_are_those_of_exact_fractions_however_the_rows_are_split(
    function: str, is_filtered: bool, data: st.DataObject
) -> None:
    y_type, x_type = data.draw(TYPES), data.draw(TYPES)
    asked = Asked(
        function,
        (y_type, x_type, pa.bool_()),
        by=1 if function in PAIRS else None,
        condition=2 if is_filtered else None,
    )
    values = st.tuples(
        st.none() | st.sampled_from(POOLS[y_type]),
        st.none() | st.sampled_from(POOLS[x_type]),
        st.none() | st.booleans(),
    )
    rows = data.draw(st.lists(st.builds(Row, st.integers(0, 2), st.just(0), values), min_size=1, max_size=16))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    results, wanted = found(asked, rows, cuts), in_fractions(asked, rows)
    assert results.keys() == wanted.keys()
    for group, expected in wanted.items():
        assert_near(results[group], expected, (asked, rows, cuts))


@pytest.mark.parametrize("function", ["var_pop", "stddev_pop", "regr_sxx", "regr_syy", "covar_pop", "regr_sxy"])
def test_equal_values_have_no_spread_at_all_however_many_partials_they_come_in(function: str) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1 if function.startswith(("regr", "covar")) else None)
    rows = [Row(0, 0, (0.1, 0.1))] * 10
    for cuts in ([], [1, 3], list(range(1, 10))):
        assert found(asked, rows, cuts) == {0: 0.0}, "0.1 * 3 / 3 is not 0.1, and what is left would divide"


@pytest.mark.parametrize("function", [*PAIRS, *SHAPES])
def test_a_partial_without_a_value_changes_nothing_however_far_from_zero_the_others_are(function: str) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1 if function in PAIRS else None)
    rows = [Row(0, 0, (2e200, 3e200))] * 3
    nothing = [Row(0, 0, (None, None))]
    wanted = found(asked, rows)
    assert found(asked, [*rows, *nothing], [3]) == found(asked, [*nothing, *rows], [1]) == wanted


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        *((name, None) for name in ("corr", "covar_samp", "regr_slope", "regr_intercept", "regr_r2")),
        *((name, 0.0) for name in ("covar_pop", "regr_sxx", "regr_syy", "regr_sxy")),
        ("regr_count", 1),
        ("regr_avgx", 2.0),
        ("regr_avgy", 1.0),
    ],
)
def test_a_single_row_has_means_and_no_slope(function: str, expected: float | None) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1)
    rows = [Row(0, 0, (1.0, 2.0)), Row(0, 0, (None, 5.0)), Row(0, 0, (5.0, None))]
    assert found(asked, rows, [1, 2]) == {0: expected}


@pytest.mark.parametrize(
    ("function", "level_x", "level_y"),
    [
        ("corr", None, None),
        ("regr_slope", None, 0.0),
        ("regr_intercept", None, 5.0),
        ("regr_r2", None, 1.0),
        ("covar_samp", 0.0, 0.0),
    ],
)
def test_a_column_of_equal_values_is_answered_as_by_spark(function: str, level_x: Any, level_y: Any) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1)
    y_of_level_x = [Row(0, 0, (float(i), 5.0)) for i in range(3)]
    x_of_level_y = [Row(1, 0, (5.0, float(i))) for i in range(3)]
    assert found(asked, [*y_of_level_x, *x_of_level_y], [2, 4]) == {0: level_x, 1: level_y}


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_correlation_with_equal_values_is_null_whatever_the_others_are(odd: float) -> None:
    asked = Asked("corr", (pa.float64(), pa.float64()), by=1)
    rows = [Row(0, 0, (5.0, odd)), Row(0, 0, (5.0, 1.0)), Row(1, 0, (odd, 5.0)), Row(1, 0, (1.0, 5.0))]
    assert found(asked, rows, [2]) == {0: None, 1: None}


@pytest.mark.parametrize("function", PAIRS)
def test_what_is_not_finite_spoils_what_it_is_in_and_a_mean_is_infinite(function: str) -> None:
    asked = Asked(function, (pa.float64(), pa.float64()), by=1)
    rows = [Row(0, 0, (math.inf, 1.0)), Row(0, 0, (1.0, 2.0))]
    expected = {"regr_count": 2, "regr_avgx": 1.5, "regr_avgy": math.inf, "regr_sxx": 0.5}.get(function, math.nan)
    for cuts in ([], [1]):
        assert found(asked, rows, cuts)[0] == pytest.approx(expected, nan_ok=True)


def test_one_giant_key_keeps_its_digits_far_from_zero() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(1e9, 1.0, 200_000)
    y = 3 * x + rng.normal(0, 1.0, 200_000)
    rows = [Row(0, 0, pair) for pair in zip(y.tolist(), x.tolist(), strict=True)]
    slope = found(Asked("regr_slope", (pa.float64(), pa.float64()), by=1), rows, [50_000, 50_001, 190_000])[0]
    assert slope == pytest.approx(3, rel=1e-2)
    assert slope == pytest.approx(np.cov(y - 3e9, x - 1e9)[0, 1] / np.var(x - 1e9, ddof=1), rel=1e-6)


def test_means_of_pairs_are_exact_and_of_the_types_of_averages() -> None:
    types = (pa.decimal128(5, 2), pa.int64())
    assert Asked("regr_avgy", types, by=1).built.result_type == pa.decimal128(9, 6)
    assert Asked("regr_avgx", types, by=1).built.result_type == pa.float64()
    assert all(r.is_invertible for r in Asked("regr_avgy", types, by=1).built.registers), "as avg of the same type"
    assert not any(r.is_invertible for r in Asked("corr", types, by=1).built.registers)


@pytest.mark.parametrize("function", PAIRS)
@pytest.mark.parametrize("types", [(pa.string(), pa.int8()), (pa.int8(), pa.date32())], ids=str)
def test_two_numbers_are_asked_for_in_full(function: str, types: tuple[pa.DataType, pa.DataType]) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(function, 0, types[0], has_event_time=True, where="job.yaml:7", by=Column(1, types[1]))
    assert str(caught.value) == (
        f"job.yaml:7: {function} needs two numbers, and its arguments are not both numbers. Cast them in a sql step, "
        f"for example CAST(x AS DOUBLE). types={types[0]}, {types[1]}"
    )
