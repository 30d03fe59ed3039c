"""Values of a row: what each column type takes, and what it refuses because something would be lost."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.keys.arrow import cast
from mixedmode.operators.process.records import python_records, python_values
from mixedmode.operators.process.rows import RowCollector, RowMismatchError, to_table
from mixedmode.operators.process.values import UNFIT, array_of

TIME = pa.timestamp("us", tz="UTC")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
STRUCT = pa.struct({"a": pa.int64(), "b": pa.string()})
MAP = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (5, pa.int64(), 5),
        (np.int32(5), pa.int64(), 5),
        (5, pa.float64(), 5.0),
        (float("inf"), pa.float32(), float("inf")),
        (0.1, pa.float32(), 0.10000000149011612),
        (NOON.replace(tzinfo=None), pa.timestamp("us"), NOON.replace(tzinfo=None)),
        (np.float32(0.5), pa.float64(), 0.5),
        ("é", pa.string(), "é"),
        (np.str_("s"), pa.string(), "s"),
        (b"x", pa.binary(), b"x"),
        (True, pa.bool_(), True),
        (Decimal("1.5"), pa.decimal128(5, 2), Decimal("1.50")),
        (1, pa.decimal128(5, 2), Decimal("1.00")),
        (date(2024, 1, 1), pa.date32(), date(2024, 1, 1)),
        (NOON.astimezone(timezone(timedelta(hours=2))), TIME, NOON),
        (NOON.replace(tzinfo=None), TIME, NOON),
        (1_704_110_400_000_000, TIME, NOON),
        (pd.Timestamp(NOON), TIME, NOON),
        ([1, None], pa.list_(pa.int64()), [1, None]),
        ((1, 2), pa.list_(pa.int64()), [1, 2]),
        ({"b": "x", "a": 1}, STRUCT, {"a": 1, "b": "x"}),
        ({"x": 1}, MAP, [("x", 1)]),
        ([("x", 1)], MAP, [("x", 1)]),
        ((("x", 1), ("y", None)), MAP, [("x", 1), ("y", None)]),
        (np.array([1, 2]), pa.list_(pa.int64()), [1, 2]),
    ],
)
def test_a_value_of_the_type_is_taken(value: Any, data_type: pa.DataType, expected: Any) -> None:
    assert python_values(array_of([value, None], data_type)) == [expected, None]
    emitted = RowCollector([pa.field("v", data_type), pa.field("nested", pa.list_(pa.int64()))])
    emitted.add({"v": value, "nested": []})
    emitted.seal()
    assert python_values(emitted.take()["v"].combine_chunks()) == [expected], "also in a row that is copied"


def test_a_cast_makes_no_number_infinite() -> None:
    given = pa.array([0.5, None, float("inf")])
    assert cast(given, pa.float32()).to_pylist() == given.to_pylist()
    assert cast(given.slice(0, 0), pa.float32()).to_pylist() == []
    with pytest.raises(pa.ArrowInvalid, match="too large for float"):
        cast(pa.chunked_array([given, [1e300]]), pa.float32())


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (1.0, pa.int64()),
        (1.5, pa.int32()),
        (np.float64(2), pa.int64()),
        (Decimal("1.5"), pa.int64()),
        (True, pa.int64()),
        (128, pa.int8()),
        ("5", pa.int64()),
        (True, pa.float64()),
        ("0.5", pa.float64()),
        (2**53 + 1, pa.float64()),
        (1e300, pa.float32()),
        (np.float64(-1e39), pa.float32()),
        ([0.5, 1e39], pa.list_(pa.float32())),
        (NOON, pa.timestamp("us")),
        (5, pa.string()),
        (b"x", pa.string()),
        ("\ud800", pa.string()),
        ("x", pa.binary()),
        (1, pa.bool_()),
        (0.5, pa.decimal128(5, 2)),
        (Decimal("0.001"), pa.decimal128(5, 2)),
        (NOON, pa.date32()),
        (pd.Timestamp(NOON), pa.date32()),
        ("2024-01-01", pa.date32()),
        ("2024-01-01", TIME),
        (0.5, TIME),
        (pd.NaT, TIME),
        ("ab", pa.list_(pa.string())),
        ({"a": 1}, pa.list_(pa.string())),
        ([1.5], pa.list_(pa.int64())),
        ({"a": 1}, STRUCT),
        ({"a": 1, "b": "x", "c": 2}, STRUCT),
        ({"a": 1.5, "b": "x"}, STRUCT),
        ((1, "x"), STRUCT),
        ({"x": 1.5}, MAP),
        (5, MAP),
        ([[1, [2.5]]], pa.list_(pa.list_(pa.int64()))),
    ],
)
def test_a_value_that_would_lose_something_is_refused(value: Any, data_type: pa.DataType) -> None:
    with pytest.raises(UNFIT):
        array_of([None, value], data_type)
    with pytest.raises(RowMismatchError, match=r"the field `x` is declared .*, and the value does not fit"):
        to_table([{"x": value}], pa.schema([("x", data_type)]))


def test_the_first_row_that_does_not_fit_is_found() -> None:
    rows: list[Mapping[str, Any]] = [{"x": 1}] * 50 + [{"x": "a"}, {"y": 1}]
    with pytest.raises(RowMismatchError) as caught:
        to_table(rows, pa.schema([("x", pa.int64())]))
    assert caught.value.index == 50


def test_a_record_holds_python_values_in_the_order_of_the_columns() -> None:
    columns = {
        "n": pa.array([1, None], pa.int32()),
        "day": pa.array([date(1, 1, 1), None], pa.date32()),
        "at": pa.array([NOON + timedelta(microseconds=7), None], TIME),
        "local": pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
        "name": pa.array(["é", None]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "tags": pa.array([["a"], None], pa.list_(pa.string())),
        "place": pa.array([{"a": 1, "b": None}, None], STRUCT),
    }
    first, second = python_records([column.slice(0) for column in columns.values()], list(columns))
    assert first == {
        "n": 1,
        "day": date(1, 1, 1),
        "at": NOON + timedelta(microseconds=7),
        "local": NOON.replace(tzinfo=None),
        "name": "é",
        "price": Decimal("1.50"),
        "tags": ["a"],
        "place": {"a": 1, "b": None},
    }
    assert list(first) == list(columns)
    assert first["at"].tzinfo is UTC
    assert second == dict.fromkeys(columns)


@pytest.mark.parametrize(
    "column", [pa.array([2**62], TIME), pa.array([2**30], pa.int32()).cast(pa.date32()), pa.array([-(2**62)], TIME)]
)
def test_a_time_beyond_the_years_of_python_is_told(column: pa.Array) -> None:
    with pytest.raises(InvalidJobError, match="a record has a date or a time that Python cannot hold, before the year"):
        python_values(column)
