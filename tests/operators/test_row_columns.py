"""The bytes of rows: they sort as the values do, and are read as the columns that they were made of."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.operators.row_columns import decoded_rows, encoded_rows, has_order, is_scalar, is_storable, row_pieces
from tests.operators.arguments import ARGUMENTS, column, nested_types, values_of
from tests.operators.oracle import order_of
from tests.random_cases import random_cases


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[pa.Field], list[tuple[Any, ...]]]:
    types = draw(st.lists(nested_types(), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | values_of(one) for one in types))
    return [pa.field(f"c{i}", one) for i, one in enumerate(types)], draw(st.lists(row, max_size=8))


@given(case=rows(), skipped=st.integers(0, 2))
@settings(max_examples=random_cases(200))
def test_encoded_rows_sort_as_their_values_and_are_decoded_as_they_were(case: Any, skipped: int) -> None:
    fields, values = case
    columns = [column([row[i] for row in values], one.type, skipped=skipped) for i, one in enumerate(fields)]
    assert all(is_storable(field.type) for field in fields)
    encoded = encoded_rows(columns, fields)
    found = decoded_rows(encoded, fields)
    for one, before in zip(found, columns, strict=True):
        one.validate(full=True)
        assert one.type == before.type
        assert repr(one.to_pylist()) == repr(before.to_pylist())
    by_bytes = sorted(range(len(values)), key=lambda row: encoded[row].as_py())
    wanted = sorted(order_of(tuple(one.to_pylist()[row] for one in columns)) for row in range(len(values)))
    assert [order_of(tuple(one.to_pylist()[row] for one in columns)) for row in by_bytes] == wanted


def test_the_bytes_are_those_of_the_docstring() -> None:
    field = pa.field("a", pa.list_(pa.int8()))
    (piece, *more) = row_pieces([pa.array([[5, None]], field.type)], [field])
    stored = b"".join(one.as_py() if isinstance(one, pa.Scalar) else one[0].as_py() for one in (piece, *more))
    assert stored == encoded_rows([pa.array([[5, None]], field.type)], [field])[0].as_py()
    inner = stored[1:-2].replace(b"\x00\xff", b"\x00")  # a binary column: marker, escaped bytes, terminator
    assert inner.hex(" ") == "01 01 85 01 00 00 00 00 00 00 03 00 00 00 03 00 00 00 02"


def test_the_fields_of_a_struct_that_is_null_do_not_count() -> None:
    parts = [pa.array([1, 2, 2], pa.int8())]
    structs = pa.StructArray.from_arrays(parts, ["x"], mask=pa.array([True, True, False]))
    field = pa.field("s", structs.type)
    first, second, third = encoded_rows([structs], [field]).to_pylist()
    assert first == second != third
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), parts[0], mask=pa.array([True, True, False]))
    first, second, third = encoded_rows([lists], [pa.field("l", lists.type)]).to_pylist()
    assert first == second != third


OTHERS = (pa.null(), pa.time64("ns"), pa.duration("us"), pa.month_day_nano_interval(), pa.decimal256(40, 0))


@pytest.mark.parametrize(
    ("data_type", "kinds"),
    [
        *((one, "scalar storable ordered") for one in ARGUMENTS),
        (pa.struct([("a", pa.list_(pa.struct([("b", pa.int8())]))), ("c", pa.string())]), "storable ordered"),
        (pa.struct([]), "storable ordered"),
        (pa.list_(pa.map_(pa.string(), pa.list_(pa.float32()))), "storable"),
        *((one, "") for one in OTHERS),
        *((pa.list_(one), "") for one in OTHERS),
        *((pa.struct([("x", one)]), "") for one in (*OTHERS, pa.list_view(pa.int8()))),
        (pa.map_(pa.string(), pa.null()), ""),
    ],
    ids=str,
)
def test_the_types_that_can_be_stored_and_ordered(data_type: pa.DataType, kinds: str) -> None:
    checks = {"scalar": is_scalar, "storable": is_storable, "ordered": has_order}
    assert " ".join(name for name, check in checks.items() if check(data_type)) == kinds
