"""Registers of parts merge to the register of all rows, in any order, and invertible registers retract rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.operators.aggregate.bits import BitParity, Bits
from mixedmode.operators.aggregate.counted import Counted, Occurrences
from mixedmode.operators.aggregate.edges import EdgeInTime
from mixedmode.operators.aggregate.moments import PairMoments, ShapeMoments
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import (
    Count,
    CountTrue,
    ExactSum,
    Extreme,
    FloatSum,
    Moments,
    Register,
    Rows,
)
from mixedmode.operators.aggregate.values import Argument, Values, limb_count, ordered_kind
from tests.operators.arguments import ARGUMENTS, DECIMALS, FLOATS, INTEGERS, NUMBERS, column
from tests.operators.oracle import identical
from tests.random_cases import random_cases

GROUPS = 3
Typed = tuple[Register, pa.DataType]
INVERTIBLE: dict[str, list[Typed]] = {
    "count": [(Count(None), pa.string()), *((Count(0), t) for t in ARGUMENTS)],
    "count-true": [(CountTrue(0), pa.bool_())],
    "bit-parity": [(BitParity(0), t) for t in INTEGERS],
    "counted": [(Counted(0, t in FLOATS or ordered_kind(t) != pa.int64()), t) for t in NUMBERS],
    "occurrences": [(Occurrences(0, ordered_kind(t)), t) for t in ARGUMENTS],
    "exact-sum": [(ExactSum(0, limb_count(t)), t) for t in (*INTEGERS, *DECIMALS)],
}
EXACT: dict[str, list[Typed]] = {
    **INVERTIBLE,
    "bits": [(Bits(0, any_of), t) for t in INTEGERS for any_of in (False, True)],
    "extreme": [(Extreme(0, largest, ordered_kind(t)), t) for t in ARGUMENTS for largest in (False, True)],
    "edge": [(EdgeInTime(0, last, ordered_kind(t)), t) for t in ARGUMENTS for last in (False, True)],
}
ROUNDED: list[Register] = [FloatSum(0), Moments(0), ShapeMoments(0), PairMoments(0, 0)]
Row = tuple[int, int, Any]  # group, event time, value


@st.composite
def rows_of(draw: st.DrawFn, data_type: pa.DataType) -> list[Row]:
    pool = draw(st.lists(ARGUMENTS[data_type], min_size=1, max_size=3))
    value = st.none() | st.sampled_from(pool) | ARGUMENTS[data_type]
    return draw(st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 2), value), max_size=12))


def parts_of(
    register: Register, data_type: pa.DataType, rows: Sequence[Row], weights: Sequence[int] | None = None
) -> tuple[list[int], list[Values]]:
    """Partial values of the groups that have rows, as every caller of a register asks for them."""
    present, codes = np.unique(np.array([row[0] for row in rows], np.int64), return_inverse=True)
    argument = Argument(column([row[2] for row in rows], data_type, skipped=1 if rows else 0))
    times = np.array([row[1] for row in rows], np.int64)
    grouping = Grouping(codes, len(present), None if weights is None else np.array(weights, np.int64))
    found = register.from_rows(grouping, Rows({0: argument}, times))
    assert [part.to_arrow().type for part in found] == list(register.fields), "the state's types are those declared"
    return present.tolist(), list(found)


def merged(register: Register, *parts: tuple[list[int], list[Values]]) -> dict[int, list[Any]]:
    groups = np.array([group for present, _ in parts for group in present], np.int64)
    present, codes = np.unique(groups, return_inverse=True)
    columns = [
        Values.from_arrow(pa.concat_arrays([values[i].to_arrow() for _, values in parts]))
        for i in range(len(register.fields))
    ]
    found = register.merge(Grouping(codes, len(present)), columns)
    return by_group(present.tolist(), found)


def by_group(groups: Sequence[int], values: Sequence[Values]) -> dict[int, list[Any]]:
    columns = [part.to_arrow().to_pylist() for part in values]
    return {group: [part[i] for part in columns] for i, group in enumerate(groups)}


@pytest.mark.parametrize("kind", EXACT)
@settings(max_examples=random_cases(25))
@given(data=st.data())
def test_merged_parts_are_the_parts_of_all_rows_in_any_order(kind: str, data: st.DataObject) -> None:
    register, data_type = data.draw(st.sampled_from(EXACT[kind]))
    rows = data.draw(rows_of(data_type))
    whole = by_group(*parts_of(register, data_type, rows))
    shuffled, cut = data.draw(st.permutations(rows)), data.draw(st.integers(0, len(rows)))
    pieces = [parts_of(register, data_type, piece) for piece in (shuffled[:cut], shuffled[cut:])]
    assert merged(register, *pieces) == whole


@pytest.mark.parametrize("register", ROUNDED, ids=lambda r: type(r).__name__)
@settings(max_examples=random_cases(25))
@given(rows=rows_of(pa.float64()), cut=st.integers(0, 12))
def test_merged_doubles_are_those_of_all_rows_where_nothing_is_rounded(
    register: Register, rows: list[Row], cut: int
) -> None:
    small = [(group, time, None if value is None else float(hash(value) % 4)) for group, time, value in rows]
    whole = by_group(*parts_of(register, pa.float64(), small))
    pieces = [parts_of(register, pa.float64(), piece) for piece in (small[:cut], small[cut:])]
    for group, values in merged(register, *pieces).items():
        assert values == pytest.approx(whole[group], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", INVERTIBLE)
@settings(max_examples=random_cases(25))
@given(data=st.data())
def test_a_row_that_comes_and_goes_leaves_no_trace_in_an_invertible_register(kind: str, data: st.DataObject) -> None:
    register, data_type = data.draw(st.sampled_from(INVERTIBLE[kind]))
    rows = data.draw(rows_of(data_type))
    expected = by_group(*parts_of(register, data_type, rows))
    passing = [row for row in data.draw(rows_of(data_type)) if row[0] in expected]
    weights = [1] * len(rows) + [1] * len(passing) + [-1] * len(passing)
    assert by_group(*parts_of(register, data_type, [*rows, *passing, *passing], weights)) == expected
    in_two_epochs = [
        parts_of(register, data_type, passing, [-1] * len(passing)),
        parts_of(register, data_type, [*rows, *passing]),
    ]
    assert merged(register, *in_two_epochs) == expected


def test_which_registers_are_invertible_is_pinned() -> None:
    assert {kind for kind, registers in EXACT.items() if all(r.is_invertible for r, _ in registers)} == set(INVERTIBLE)
    assert not any(register.is_invertible for register in ROUNDED), "a sum of doubles cannot be retracted exactly"


def test_a_slice_without_a_value_has_doubles_in_its_columns() -> None:
    for register in ROUNDED:
        _, found = parts_of(register, pa.float64(), [(0, 0, None), (1, 0, None)])
        types = [part.to_arrow().type for part in found]
        assert types == list(register.fields)
        assert pa.float64() in types


def test_limbs_carry_so_that_sums_of_sums_cannot_overflow() -> None:
    register = ExactSum(0, 2)
    parts = parts_of(register, pa.int64(), [(0, 0, 2**63 - 1)])
    for _ in range(31):  # twice as much each time: 2**31 rows of the largest value
        total = merged(register, parts, parts)[0]
        parts = ([0], [Values(np.array([part], np.int64)) for part in total])
    low, high = total
    assert 0 <= low < 2**32, "the lower limb is normal"
    assert low + high * 2**32 == (2**63 - 1) * 2**31, "exact far beyond 64 bits"


def test_an_edge_keeps_the_value_of_its_time_and_not_a_better_one() -> None:
    rows: list[Row] = [(0, 5, 1), (0, 9, None), (0, 1, 7)]
    first, last = (by_group(*parts_of(EdgeInTime(0, e, pa.int64()), pa.int64(), rows)) for e in (False, True))
    assert (first, last) == ({0: [1, 7]}, {0: [9, None]})


def test_nan_is_the_greatest_double_and_zeros_have_an_order() -> None:
    rows: list[Row] = [(0, 0, v) for v in (0.0, float("nan"), -0.0, float("inf"))]
    for largest, expected in ((True, float("nan")), (False, -0.0)):
        register = Extreme(0, largest, pa.int64())
        present, (best,) = parts_of(register, pa.float64(), rows)
        (back,) = Argument(pa.array([expected])).ordered.to_arrow().to_pylist()
        assert by_group(present, [best]) == {0: [back]}
    assert not identical(0.0, -0.0), "the oracle tells them apart, too"


@pytest.mark.parametrize("last", [True, False])
def test_an_edge_of_a_group_without_a_record_is_null_and_any_record_beats_it(last: bool) -> None:
    rows = Rows({0: Argument(pa.array([None, 1]))}, np.array([5, 2**63 - 1], np.int64))
    register = EdgeInTime(0, last, pa.int64())
    parts = register.from_rows(Grouping(np.array([1, 2]), 3), rows)
    assert by_group(range(3), parts) == {0: [None, None], 1: [5, None], 2: [2**63 - 1, 1]}
    assert merged(register, ([0, 1, 2], list(parts)), ([0, 1, 2], list(parts)))[0] == [None, None]
    late = register.from_rows(Grouping(np.array([0, 0]), 1), rows)
    expected = [2**63 - 1, 1] if last else [5, None]
    assert merged(register, ([0, 1, 2], list(parts)), ([0], list(late)))[0] == expected
