"""Conversions of columns keep every value, or fail."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.keys.arrow import cast

NOON, MIDNIGHT = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
DATE, MONEY = pa.date32(), pa.decimal128(10, 2)
LISTS, MAPS = pa.list_(DATE), pa.map_(pa.string(), MONEY)
STRUCTS = pa.struct([("day", DATE), ("sum", MONEY)])

KEPT: list[tuple[pa.Array, pa.DataType, list[Any]]] = [
    (pa.array([MIDNIGHT, None]), DATE, [date(2024, 1, 1), None]),
    (pa.array([0, 1, None]), pa.bool_(), [False, True, None]),
    (pa.array(["true", "false"]), pa.bool_(), [True, False]),
    (pa.array([1.1, -0.0, None]), MONEY, [Decimal("1.10"), Decimal("0.00"), None]),
    (pa.array(["1.5"]), MONEY, [Decimal("1.50")]),
    (pa.array([0.1, float("inf")]), pa.float32(), [pa.scalar(0.1, pa.float32()).as_py(), float("inf")]),
    (pa.array([timedelta(seconds=1)], pa.duration("s")), pa.duration("us"), [timedelta(seconds=1)]),
    (pa.array([[MIDNIGHT], None, []]), LISTS, [[date(2024, 1, 1)], None, []]),
    (pa.array([{"sum": 1.5, "day": MIDNIGHT}]), STRUCTS, [{"day": date(2024, 1, 1), "sum": Decimal("1.50")}]),
    (pa.nulls(2), STRUCTS, [None, None]),
    (pa.array([None, None], pa.list_(pa.null())), LISTS, [None, None]),
    (pa.array([[("a", 1.5)], None], pa.map_(pa.string(), pa.float64())), MAPS, [[("a", Decimal("1.50"))], None]),
    (pa.array([["x"], ["y"]], pa.list_(pa.string())).slice(1), pa.large_list(pa.string()), [["y"]]),
]
LOST: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([MIDNIGHT, NOON]), DATE),
    (pa.array([NOON], pa.timestamp("s")), pa.time64("us")),
    (pa.array([2]), pa.bool_()),
    (pa.array([0.5]), pa.bool_()),
    (pa.array([1.555]), MONEY),
    (pa.array([Decimal("1.555")]), MONEY),
    (pa.array([1e300]), pa.float32()),
    (pa.array([1500], pa.duration("ns")), pa.duration("us")),
    (pa.array([[MIDNIGHT], [NOON]]), LISTS),
    (pa.array([[1e300]]), pa.list_(pa.float32())),
    (pa.array([[("a", 1.555)]], pa.map_(pa.string(), pa.float64())), MAPS),
    (pa.array([{"sum": 1.555, "day": MIDNIGHT}]), STRUCTS),
    (pa.array([{"sum": 1.5}]), STRUCTS),
    (pa.array([{"sum": 1.5, "day": MIDNIGHT, "more": 1}]), STRUCTS),
    (pa.array([[{"sum": 1.5, "day": NOON}]]), pa.list_(STRUCTS)),
]


@pytest.mark.parametrize(("column", "data_type", "values"), KEPT)
def test_what_a_type_holds_is_converted(column: pa.Array, data_type: pa.DataType, values: list[Any]) -> None:
    assert cast(column, data_type).to_pylist() == values
    assert cast(pa.chunked_array([column, column]), data_type).to_pylist() == values * 2


@pytest.mark.parametrize(("column", "data_type"), LOST)
def test_what_would_lose_something_is_refused(column: pa.Array, data_type: pa.DataType) -> None:
    for each in (column, pa.chunked_array([column]), pa.concat_arrays([pa.nulls(2, column.type), column]).slice(1)):
        with pytest.raises(pa.ArrowException):
            cast(each, data_type)
