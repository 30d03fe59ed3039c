"""Reductions by group against loops in plain Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate.reduce import (
    Grouping,
    bytes_of_ranks,
    count_by,
    extreme_by,
    rank_bytes,
    sum_by,
    sum_floats_by,
)
from mixedmode.operators.aggregate.values import Values, ordered_values
from tests.operators.arguments import columns

GROUPS = 4
ROWS = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(-(2**40), 2**40), st.integers(-3, 3)), max_size=20)


def grouping_of(rows: list[tuple[int, int, int]], *, weighted: bool, dtype: Any = np.int64) -> Grouping:
    weights = np.array([row[2] for row in rows], np.int64) if weighted else None
    return Grouping(np.array([row[0] for row in rows], dtype), GROUPS, weights)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [True, False])
@given(rows=ROWS)
def test_counts_and_sums_are_those_of_a_loop(rows: list[tuple[int, int, int]], *, weighted: bool, dtype: Any) -> None:
    grouping = grouping_of(rows, weighted=weighted, dtype=dtype)
    counts, sums = [0] * GROUPS, [0] * GROUPS
    for group, value, weight in rows:
        counts[group] += weight if weighted else 1
        sums[group] += value * (weight if weighted else 1)
    numbers = np.array([row[1] for row in rows], np.int64)
    assert count_by(grouping).tolist() == counts
    assert sum_by(grouping, numbers).tolist() == sums
    assert sum_floats_by(grouping, numbers.astype(np.float64)).tolist() == sums, "these doubles are exact"


@given(rows=ROWS, kept=st.lists(st.booleans(), min_size=20, max_size=20))
def test_where_leaves_the_rows_that_are_true(rows: list[tuple[int, int, int]], kept: list[bool]) -> None:
    mask = np.array(kept[: len(rows)], np.bool_)
    some = grouping_of(rows, weighted=True).where(mask)
    expected = grouping_of([row for row, keep in zip(rows, kept, strict=False) if keep], weighted=True)
    assert count_by(some).tolist() == count_by(expected).tolist()
    assert some.size == GROUPS, "a group without rows stays a group"


def test_where_without_a_mask_is_every_row() -> None:
    grouping = grouping_of([(1, 1, 1)], weighted=False)
    assert grouping.where(None) is grouping


@pytest.mark.parametrize("reduction", [count_by, lambda g: sum_by(g, np.empty(0, np.int64))])
def test_no_rows_count_and_add_up_to_int64_zeros(reduction: Callable[[Grouping], Any]) -> None:
    found = reduction(Grouping(np.empty(0, np.int64), 2))
    assert (found.tolist(), found.dtype) == ([0, 0], np.int64)


def test_doubles_without_a_row_add_up_to_a_double() -> None:
    found = sum_floats_by(Grouping(np.empty(0, np.int64), 2), np.empty(0, np.float64))
    assert found.tolist() == [0.0, 0.0]
    assert found.dtype == np.float64, "a slice of NULLs has the type of other slices"


@pytest.mark.parametrize("largest", [True, False])
@given(column=columns(), data=st.data())
def test_extremes_are_those_of_a_loop_with_null_passed_over(
    column: pa.Array, *, largest: bool, data: st.DataObject
) -> None:
    codes = data.draw(st.lists(st.integers(0, GROUPS - 1), min_size=len(column), max_size=len(column)))
    ordered = ordered_values(column)
    found = extreme_by(Grouping(np.array(codes, np.int64), GROUPS), ordered, largest=largest).to_arrow().to_pylist()
    values = ordered.to_arrow().to_pylist()
    for group in range(GROUPS):
        seen = [v for c, v in zip(codes, values, strict=True) if c == group and v is not None]
        assert found[group] == ((max if largest else min)(seen) if seen else None)


#: values whose first eight bytes are mostly equal, some of which differ only in zeros at their end
TAILS = st.text("\0a\xff", max_size=4).map(str.encode)
ALIKE = st.builds(lambda head, tail: b"12345678"[:head] + tail, st.integers(6, 8), TAILS)


@pytest.mark.parametrize("largest", [True, False])
@given(rows=st.lists(st.tuples(st.integers(0, GROUPS - 1), st.none() | ALIKE), max_size=20), before=st.integers(0, 3))
def test_extremes_of_bytes_that_begin_alike_are_those_of_a_loop(
    rows: list[tuple[int, bytes | None]], before: int, *, largest: bool
) -> None:
    column = pa.array([None] * before + [value for _, value in rows], pa.large_binary())[before:]
    grouping = Grouping(np.array([code for code, _ in rows], np.int64), GROUPS)
    found = extreme_by(grouping, Values.from_arrow(column), largest=largest).to_arrow().to_pylist()
    for group in range(GROUPS):
        seen = [value for code, value in rows if code == group and value is not None]
        assert found[group] == ((max if largest else min)(seen) if seen else None)


@given(st.lists(st.binary(max_size=3), max_size=12))
def test_ranks_are_dense_and_in_byte_order_and_lead_back(rows: list[bytes]) -> None:
    ranks, dictionary = rank_bytes(pa.array(rows, pa.large_binary()))
    assert dictionary.to_pylist() == sorted(set(rows))
    assert ranks.tolist() == [sorted(set(rows)).index(row) for row in rows]
    assert bytes_of_ranks(Values(ranks), dictionary).to_arrow().to_pylist() == rows


def test_a_null_rank_is_a_null_value() -> None:
    ranks = Values(np.array([0, 99], np.int64), np.array([True, False]))
    assert bytes_of_ranks(ranks, pa.array([b"a"], pa.large_binary())).to_arrow().to_pylist() == [b"a", None]
