"""Sketches: exact while a group is small, within the error that was asked for when it is not, stable in their bytes."""

import math
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import datasketches
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import aggregate_function
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.sketches import DistinctSketch, QuantileSketch, hll_lg_k, quantile_k
from mixedmode.operators.aggregate.values import Argument, Values, from_ordered
from tests.operators.arguments import NUMBERS, ORDERED
from tests.operators.calls import Asked, Row, cases, expected, found, same
from tests.random_cases import random_cases

#: doubles lose nothing of these
EXACT = [t for t in NUMBERS if not (pa.types.is_decimal(t) and t.precision > 18)]
MEASURED = [*EXACT, pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
Register = DistinctSketch | QuantileSketch
Parts = tuple[Values, ...]
Doubles = npt.NDArray[np.float64]


def parts_of(register: Register, values: pa.Array, codes: Sequence[int] | None = None, *, weights: Any = None) -> Parts:
    """The state of the groups 0, 1, ... (of one group, if there are no codes)."""
    groups = np.zeros(len(values), np.int64) if codes is None else np.array(codes, np.int64)
    size = int(groups.max()) + 1
    return register.from_rows(Grouping(groups, size, weights), Rows({0: Argument(values)}))


def merged(register: Register, *parts: Parts, codes: Sequence[int] | None = None, size: int = 1) -> Parts:
    columns = [
        Values.from_arrow(pa.concat_arrays([part[i].to_arrow() for part in parts])) for i in range(len(parts[0]))
    ]
    rows = len(columns[0].to_arrow())
    return register.merge(Grouping(np.array(codes or [0] * rows, np.int64), size), columns)


def is_sketch(parts: Parts) -> list[bool]:
    values, sketch = (part.to_arrow().to_pylist() for part in parts)
    assert not any(v and s for v, s in zip(values, sketch, strict=True)), "a group has values or a sketch"
    return [bool(s) for s in sketch]


# --- small groups ----------------------------------------------------------------------------------------------------


@settings(max_examples=random_cases(40))
@given(data=st.data())
def test_few_distinct_values_are_counted_exactly(data: st.DataObject) -> None:
    asked = Asked("approx_count_distinct", (data.draw(st.sampled_from(ORDERED)),))
    rows, cuts = data.draw(cases(asked.types))
    assert found(asked, rows, cuts) == expected(asked, rows)


@settings(max_examples=random_cases(40))
@given(data=st.data(), share=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.07, 0.95, 1.0]))
def test_percentiles_of_few_values_are_exact(data: st.DataObject, share: float) -> None:
    asked = Asked("approx_percentile", (data.draw(st.sampled_from(MEASURED)),), parameters=(share,))
    rows, cuts = data.draw(cases(asked.types))
    results = found(asked, rows, cuts)
    for group, value in expected(asked, rows).items():
        assert same(results[group], value), (asked, results[group], value)


@pytest.mark.parametrize("count", range(1, 101))
def test_a_percentile_is_the_value_at_the_rank_that_decimals_say(count: int) -> None:
    register = QuantileSketch(0, 200, is_float=False)
    parts = parts_of(register, pa.array(range(1, count + 1)))
    for share in ("0", "0.01", "0.07", "0.1", "0.29", "0.5", "0.57", "0.9", "0.95", "0.99", "1"):
        rank = max(1, math.ceil(Decimal(share) * count))  # 0.07 * 100 is above 7 in doubles
        assert register.quantiles(parts, float(share)).to_arrow().to_pylist() == [rank], (share, count)


def test_a_group_becomes_a_sketch_when_it_has_more_values_than_take_the_room_of_one() -> None:
    register = DistinctSketch(0, 9)
    for count, large in ((64, False), (65, True)):
        assert is_sketch(parts_of(register, pa.array([*range(count), *range(count)]))) == [large], count
    quantiles = QuantileSketch(0, 200, is_float=False)
    for count, large in ((200, False), (201, True)):
        assert is_sketch(parts_of(quantiles, pa.array(range(count)))) == [large], count
    small = parts_of(quantiles, pa.array(range(150)))
    assert is_sketch(merged(quantiles, small)) == [False]
    assert is_sketch(merged(quantiles, small, small)) == [True], "also by merging"


def test_a_sketch_stays_one_when_nothing_or_something_small_is_merged_into_it() -> None:
    register = DistinctSketch(0, 7)
    large, small = parts_of(register, pa.array(range(1000))), parts_of(register, pa.array([1, 2, None]))
    nothing = parts_of(register, pa.array([None], pa.int64()))
    both = merged(register, large, small, nothing, codes=[2, 0, 1], size=3)
    assert is_sketch(both) == [False, False, True]
    assert register.estimates(both).tolist()[:2] == [2, 0]
    assert register.estimates(merged(register, large, small, nothing)) == register.estimates(large)


# --- many distinct values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative_error", [0.05, 0.02])
@pytest.mark.parametrize("count", [100, 1_000, 20_000])
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_estimates_of_distinct_values_are_as_close_as_asked_for(kind: str, count: int, relative_error: float) -> None:
    register = DistinctSketch(0, hll_lg_k(relative_error))
    numbers = pa.array(np.random.default_rng(7).integers(-(2**62), 2**62, (30, count)).ravel())
    values = numbers if kind == "int64" else numbers.cast(pa.string())
    parts = parts_of(register, values, np.repeat(np.arange(30), count).tolist())
    errors = register.estimates(parts) / count - 1
    assert np.sqrt(np.mean(errors**2)) < 1.3 * relative_error, "30 groups, so the spread itself is a little off"
    assert abs(np.mean(errors)) < relative_error, "no bias"


@settings(max_examples=random_cases(10), deadline=None)
@given(
    cuts=st.lists(st.integers(0, 3_000), max_size=4),
    seed=st.integers(0, 2**16),
    distinct=st.sampled_from([70, 700, 3_000]),
)
def test_an_estimate_depends_on_the_set_of_values_alone(cuts: list[int], seed: int, distinct: int) -> None:
    register, rng = DistinctSketch(0, 9), np.random.default_rng(seed)
    values = rng.permutation(np.arange(3_000) % distinct)
    whole = register.estimates(parts_of(register, pa.array(values)))
    borders = [0, *sorted(cuts), 3_000]
    shuffled = rng.permutation(values)
    pieces = [shuffled[a:b] for a, b in pairwise(borders) if b > a]
    pieces.append(values[::2])
    total = parts_of(register, pa.array(pieces[0]))
    for piece in pieces[1:]:
        total = merged(register, total, parts_of(register, pa.array(piece)))
    assert register.estimates(total).tolist() == whole.tolist()


def test_the_size_of_a_distinct_sketch_follows_from_its_error() -> None:
    assert [hll_lg_k(error) for error in (0.39, 0.05, 0.02, 0.01, 0.001)] == [7, 9, 12, 14, 21]
    for error in (0.09, 0.05, 0.02, 0.01):
        assert 1.04 / math.sqrt(2 ** hll_lg_k(error)) <= error


# --- many values to take a percentile of -----------------------------------------------------------------------------


def rank_errors(values: Doubles, found: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return how far the rank of each answer is from its share of the values; ties count in its favour."""
    ordered = np.sort(values)
    low = np.searchsorted(ordered, found, "left") / len(values)
    high = np.searchsorted(ordered, found, "right") / len(values)
    return [max(a - share, share - b, 0.0) for a, b, share in zip(low, high, shares, strict=True)]


@pytest.mark.parametrize("accuracy", [50, 400])
@pytest.mark.parametrize("pieces", [1, 7, 60])
def test_the_ranks_of_percentiles_are_as_close_as_asked_for(accuracy: int, pieces: int) -> None:
    register, rng = QuantileSketch(0, quantile_k(accuracy), is_float=True), np.random.default_rng(3)
    shares = [0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0]
    outside = 0
    for _ in range(10):
        values = rng.lognormal(0, 3, 30_000)
        parts = [parts_of(register, pa.array(piece)) for piece in np.array_split(values, pieces)]
        total = merged(register, *parts) if pieces > 1 else parts[0]
        answers = [float(_doubles(register.quantiles(total, share))[0]) for share in shares]
        assert np.isin(answers, values).all(), "an answer is one of the values"
        assert (answers[0], answers[-1]) == (values.min(), values.max()), "the ends are exact"
        outside += sum(error > 1 / accuracy for error in rank_errors(values, answers, shares))
    assert outside <= 2, "in 99 of 100 answers; here of 80"


def _doubles(values: Values) -> Doubles:
    column: Doubles = from_ordered(values, pa.float64()).to_numpy(zero_copy_only=False)
    return column


def test_the_size_of_a_quantile_sketch_is_the_least_with_the_library_s_own_error_bound() -> None:
    for accuracy in (10, 50, 100, 400, 1_000, 10_000):
        k = quantile_k(accuracy)
        bound = datasketches.kll_doubles_sketch.get_normalized_rank_error
        assert bound(k, False) <= 1.001 / accuracy
        assert bound(k - 2, False) > 1 / accuracy
    assert quantile_k(400) == 1_116


def test_nan_is_the_greatest_value_of_a_sketch_too() -> None:
    register = QuantileSketch(0, 200, is_float=True)
    values = pa.array([float("nan")] * 300 + [float(i) for i in range(700)])
    total = merged(register, parts_of(register, values), parts_of(register, values))
    assert is_sketch(total) == [True]
    for share, expected_at in ((0.35, 350.0), (0.69, 690.0)):
        assert abs(_doubles(register.quantiles(total, share))[0] - expected_at) < 30
    assert [math.isnan(_doubles(register.quantiles(total, share))[0]) for share in (0.7, 0.71, 1.0)] == [
        False,
        True,
        True,
    ]
    nothing_else = parts_of(register, pa.array([float("nan")] * 300))
    assert math.isnan(_doubles(register.quantiles(nothing_else, 0.0))[0])


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.int8(), -100),
        (pa.int64(), -(2**63)),
        (pa.int64(), 2**63 - 1),
        (pa.decimal128(18, 2), Decimal("9999999999999999.99")),
        (pa.decimal128(38, 38), Decimal("0." + "9" * 38)),
        (pa.decimal128(38, 0), Decimal("-" + "9" * 38)),
        (pa.decimal128(28, 4), Decimal("1.5")),
        (pa.float32(), 0.1),
        (pa.date32(), date(2020, 5, 6)),
        (pa.timestamp("us", "UTC"), datetime(2020, 5, 6, 7, 8, 9, 123456, UTC)),
    ],
    ids=str,
)
def test_the_answer_of_a_sketch_fits_its_type_also_where_doubles_do_not(data_type: pa.DataType, value: Any) -> None:
    asked = Asked("approx_percentile", (data_type,), parameters=(0.5, 10))
    rows = [Row(0, 0, (value,))] * 100
    (answer,) = found(asked, rows).values()
    (exact,) = pa.array([value], data_type).to_pylist()
    assert quantile_k(10) < len(rows), "a sketch"
    if isinstance(value, Decimal):
        assert abs(answer - exact) <= abs(exact) * Decimal("1e-15"), "as near as a double"
    else:
        assert answer == exact


@pytest.mark.parametrize(
    ("data_type", "value", "answer"),
    [
        (pa.decimal128(38, 18), "1.1", "1.1"),
        (pa.decimal128(28, 2), "-834.56", "-834.56"),
        (pa.decimal128(38, 38), "0." + "3" * 38, "0." + "3" * 16),
        (pa.decimal128(38, 38), "0." + "9" * 38, "0." + "9" * 38),
        (pa.decimal128(38, 0), "3" * 38, "3" * 17 + "0" * 21),
        (pa.decimal128(38, 0), "-" + "9" * 38, "-" + "9" * 38),
        (pa.decimal128(38, 20), "0.00123456789012345678", "0.0012345678901234567"),
        (pa.decimal128(20, 2), None, None),
    ],
    ids=str,
)
def test_a_wide_decimal_is_the_one_as_which_its_double_is_printed(
    data_type: pa.DataType, value: str | None, answer: str | None
) -> None:
    asked = Asked("approx_percentile", (data_type,), parameters=(0.5, 10))
    for count in (1, 100):
        rows = [Row(0, 0, (None if value is None else Decimal(value),))] * count
        assert found(asked, rows) == {0: None if answer is None else Decimal(answer)}


def test_over_a_changelog_percentiles_are_exact_however_many_rows_there_are() -> None:
    register = QuantileSketch(0, 200, is_float=False)
    parts = parts_of(register, pa.array([3, None, 1, 2]), weights=np.array([100, 50, 1_000, 900], np.int64))
    assert is_sketch(parts) == [False]
    assert [register.quantiles(parts, share).to_arrow()[0].as_py() for share in (0.5, 0.501, 0.95, 0.951)] == [
        1,
        2,
        2,
        3,
    ]


# --- state and types -------------------------------------------------------------------------------------------------

#: written by datasketches 5.2.0: the numbers 0 to 99 in 128 registers; NaN and 0.0 to 19.0 with k = 8
STORED_HLL = bytes.fromhex(
    "0a0107070008000ab8b18a23fede574000000000002b544000000000000000003a000000000000000001010001020301000000000002"
    "000100000001010100060001010000030602040201020100000000010501010004010400010003030100030000010000010100010007"
    "010001000100000100000700000101000104000100030002010202040401000001040005000403000001010400000300000101000000"
    "000202000000"
)
STORED_KLL = bytes.fromhex(
    "010000000000000005010f0008000800140000000000000008000200000000000c000000000000000000000000000000000033400000"
    "0000000033400000000000003240000000000000314000000000000030400000000000002e400000000000002c400000000000002a40"
    "00000000000028400000000000002640000000000000244000000000000022400000000000002040000000000000f03f000000000000"
    "084000000000000014400000000000001c40"
)


def test_sketches_written_by_earlier_versions_are_read() -> None:
    empty, one = pa.array([b""], pa.large_binary()), pa.large_binary()
    distinct = DistinctSketch(0, 7)
    assert distinct.estimates((Values(empty), Values(pa.array([STORED_HLL], one)))).tolist() == [95]
    quantiles = QuantileSketch(0, 8, is_float=True)
    parts = (Values(empty), Values(pa.array([STORED_KLL], one)))
    answers = [float(_doubles(quantiles.quantiles(parts, share))[0]) for share in (0.0, 0.5, 0.95)]
    assert answers == [0.0, 10.0, 19.0]
    assert math.isnan(_doubles(quantiles.quantiles(parts, 1.0))[0]), "the greatest of 21 values is the NaN"


@pytest.mark.parametrize("data_type", [pa.string(), pa.bool_(), pa.binary()], ids=str)
def test_a_percentile_of_what_is_no_measure_is_refused_in_full(data_type: pa.DataType) -> None:
    with pytest.raises(InvalidJobError) as caught:
        aggregate_function(
            "approx_percentile", 0, data_type, has_event_time=True, where="job.yaml:7", parameters=(0.5,)
        )
    assert str(caught.value) == (
        "job.yaml:7: approx_percentile needs a number, a date or a timestamp, and its argument is none. Cast it in a "
        f"sql step, for example CAST(x AS DOUBLE). type={data_type}"
    )


def test_percentiles_of_one_column_share_their_state_and_have_the_type_of_the_column() -> None:
    functions = [Asked("approx_percentile", (t,), parameters=(p,)).built for t in (pa.int8(),) for p in (0.5, 0.9)]
    assert functions[0].registers == functions[1].registers
    for data_type in (*NUMBERS, pa.date32()):
        assert Asked("approx_percentile", (data_type,), parameters=(0.5,)).built.result_type == data_type
    assert Asked("approx_count_distinct", (pa.string(),)).built.result_type == pa.int64()
    assert pickle.loads(pickle.dumps(functions)) == functions
