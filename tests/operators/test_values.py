"""Storage forms: their order is the order of the values, they give the values back, and limbs add up exactly."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.aggregate.values import (
    LIMB_BITS,
    Argument,
    Values,
    float_values,
    from_ordered,
    integer_limbs,
    limb_count,
    ordered_kind,
    ordered_values,
    validity,
)
from tests.operators.arguments import ARGUMENTS, DECIMALS, INTEGERS, NUMBERS, columns
from tests.operators.oracle import identical, order_of


@given(columns() | columns(is_nested=True))
def test_the_order_of_the_storage_form_is_the_order_of_the_values(column: pa.Array) -> None:
    values, ordered = column.to_pylist(), ordered_values(column).to_arrow().to_pylist()
    for a, form_a in zip(values, ordered, strict=True):
        for b, form_b in zip(values, ordered, strict=True):
            if a is not None and b is not None:
                assert (form_a < form_b) == (order_of(a) < order_of(b)), (a, b)


@given(columns() | columns(is_nested=True))
def test_the_storage_form_gives_the_values_back(column: pa.Array) -> None:
    stored = ordered_values(column).to_arrow()
    assert stored.type == ordered_kind(column.type), "the state's column type is known before there are values"
    restored = from_ordered(Values.from_arrow(stored), column.type)
    restored.validate(full=True)
    assert restored.type == column.type
    assert all(map(identical, restored.to_pylist(), column.to_pylist())), (restored, column)


@given(columns([*INTEGERS, *DECIMALS]))
def test_limbs_add_up_to_the_unscaled_integers(column: pa.Array) -> None:
    limbs = integer_limbs(column)
    assert len(limbs) == limb_count(column.type)
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    for row, value in enumerate(column.to_pylist()):
        total = sum(int(limb[row]) << LIMB_BITS * i for i, limb in enumerate(limbs))
        assert total == (0 if value is None else Fraction(value) * 10**scale), value
        assert all(0 <= int(limb[row]) < 2**LIMB_BITS for limb in limbs[:-1]), "only the last limb has a sign"


@given(columns(NUMBERS))
def test_doubles_are_those_nearest_to_the_values(column: pa.Array) -> None:
    for found, value in zip(float_values(column).tolist(), column.to_pylist(), strict=True):
        if value is not None:
            assert identical(found, float(value)) or found == pytest.approx(float(value), rel=1e-15), value


@given(columns())
def test_validity_is_false_exactly_at_null(column: pa.Array) -> None:
    valid = validity(column)
    expected = [value is not None for value in column.to_pylist()]
    assert (valid is None) == all(expected), "a column without NULL needs no mask"
    assert valid is None or valid.tolist() == expected


@given(columns(), st.lists(st.integers(0, 50), max_size=8))
def test_taking_rows_takes_values_and_nulls_alike(column: pa.Array, picks: list[int]) -> None:
    rows = np.array([pick % len(column) for pick in picks if len(column)], np.intp)
    taken = from_ordered(ordered_values(column).take(rows), column.type).to_pylist()
    everything = column.to_pylist()
    assert all(map(identical, taken, [everything[row] for row in rows]))
    assert len(taken) == len(rows)


@pytest.mark.parametrize("data_type", ARGUMENTS, ids=str)
@pytest.mark.parametrize("size", [0, 3])
def test_a_column_of_nothing_but_null_survives(data_type: pa.DataType, size: int) -> None:
    column = pa.nulls(size, data_type)
    assert from_ordered(ordered_values(column), data_type).equals(column)


@given(columns())
def test_an_argument_converts_each_form_once(column: pa.Array) -> None:
    argument = Argument(column)
    assert argument.ordered is argument.ordered
    if column.type in NUMBERS:
        assert argument.floats is argument.floats
    if column.type in [*INTEGERS, *DECIMALS]:
        assert argument.limbs is argument.limbs


@pytest.mark.parametrize(
    ("data_type", "value", "stored"),
    [
        (pa.int8(), -1, -1),
        (pa.bool_(), True, 1),
        (pa.float64(), 1.0, 0x3FF0000000000000),
        (pa.float64(), -1.0, -0x3FF0000000000001),
        (pa.float64(), -0.0, -1),
        (pa.float64(), float("nan"), 0x7FF8000000000000),
        (pa.decimal128(10, 2), Decimal("-1.50"), -150),
        (pa.decimal128(38, 0), Decimal(-1), b"\x7f" + b"\xff" * 15),
        (pa.string(), "\u20ac", b"\xe2\x82\xac"),
    ],
)
def test_stored_forms_are_pinned(data_type: pa.DataType, value: Any, stored: int | bytes) -> None:
    found = ordered_values(pa.array([value], data_type)).to_arrow().to_pylist()
    assert found == [stored], "checkpoints hold these: a change of them is a new format version"
