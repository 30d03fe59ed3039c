"""Values of process functions become Arrow columns by the description of their type alone."""

import enum
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.operators.process.descriptions import describe
from mixedmode.queryable.values import arrow_type, column_of, decoded


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    name: str | None = None


@dataclass
class Tree:
    value: int
    below: list["Tree"] = field(default_factory=list)


@dataclass(frozen=True)
class Key:
    a: int


AT = datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
ID = uuid.UUID(int=7)
#: (declared type, value, value in Arrow, Arrow type)
CASES: list[tuple[Any, Any, Any, pa.DataType]] = [
    (int, -(2**63), -(2**63), pa.int64()),
    (float, 0.5, 0.5, pa.float64()),
    (str, "é", "é", pa.string()),
    (bytes, b"\xff", b"\xff", pa.binary()),
    (bool, True, True, pa.bool_()),
    (datetime, AT, AT, pa.timestamp("us", "UTC")),
    (datetime, AT.astimezone(timezone(timedelta(hours=2))), AT, pa.timestamp("us", "UTC")),
    (datetime, AT.replace(tzinfo=None), AT, pa.timestamp("us", "UTC")),
    (date, date(2024, 2, 29), date(2024, 2, 29), pa.date32()),
    (time, time(1, 2, 3, 4), time(1, 2, 3, 4), pa.time64("us")),
    (timedelta, timedelta(days=-1, microseconds=3), timedelta(days=-1, microseconds=3), pa.duration("us")),
    (Decimal, Decimal("1.50"), "1.50", pa.string()),
    (uuid.UUID, ID, str(ID), pa.string()),
    (Color, Color.RED, "red", pa.string()),
    (Level, Level.LOW, 1, pa.int64()),
    (int | None, None, None, pa.int64()),
    (list[int | None], [1, None], [1, None], pa.list_(pa.int64())),
    (set[str], {"a"}, ["a"], pa.list_(pa.string())),
    (tuple[int, ...], (1, 2), [1, 2], pa.list_(pa.int64())),
    (tuple[int, str], (1, "a"), {"_0": 1, "_1": "a"}, pa.struct([("_0", pa.int64()), ("_1", pa.string())])),
    (dict[str, date], {"a": date(2024, 1, 1)}, [("a", date(2024, 1, 1))], pa.map_(pa.string(), pa.date32())),
    (dict[tuple[int, int], str], {(1, 2): "a"}, [({"_0": 1, "_1": 2}, "a")], None),
    (Point, Point(1), {"x": 1, "name": None}, pa.struct([("x", pa.int64()), ("name", pa.string())])),
    (int | str, "a", '"a"', pa.string()),
    (Tree, Tree(1, [Tree(2)]), {"value": 1, "below": ['{"value":2,"below":[]}']}, None),
]


@pytest.mark.parametrize(("declared", "value", "expected", "data_type"), CASES, ids=lambda case: repr(case)[:40])
def test_a_stored_value_is_shown_by_its_declared_type(
    declared: Any, value: Any, expected: Any, data_type: pa.DataType | None
) -> None:
    description = describe(declared)
    column = column_of([decoded(msgspec.msgpack.encode(value), "state"), None], description)
    assert column.to_pylist() == [expected, None]
    assert column.type == arrow_type(description) == (data_type or column.type)


def test_an_int_beyond_64_bits_is_not_lost() -> None:
    column = column_of([2**64 - 1, None, 1], describe(int))
    assert [None if value is None else int(value) for value in column.to_pylist()] == [2**64 - 1, None, 1]


def test_what_cannot_be_shown_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidJobError, match="dictionary whose keys are records"):
        decoded(msgspec.msgpack.encode({Key(1): 2}), "visits")
    with pytest.raises(InvalidJobError, match="beyond the range"):
        column_of([[2**64 - 1]], describe(list[int]))
    with pytest.raises(CorruptStateError, match="a stored value is damaged"):
        decoded(b"\xc1", "visits")
