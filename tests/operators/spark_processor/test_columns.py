"""Values in state: what comes back, and what does not fit."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DecimalType, IntegerType, MapType, StringType, StructField, StructType

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process.descriptions import describe
from mixedmode.operators.spark_processor.columns import Columns, KeyColumns, columns_of

NOON = datetime(2026, 1, 2, 12, 30, 0, 5)  # noqa: DTZ001 - as a class gives it

#: (type, value given, value that comes back)
SAME: Any = "the same"  # as the value
VALUES: list[tuple[str, Any, Any]] = [
    ("boolean", True, SAME),
    ("tinyint", -128, SAME),
    ("smallint", 2**15 - 1, SAME),
    ("int", np.int64(-(2**31)), -(2**31)),
    ("bigint", 2**63 - 1, SAME),
    ("double", 1e300, SAME),
    ("double", float("inf"), SAME),
    ("float", 0.1, 0.10000000149011612),
    ("string", "ä", SAME),
    ("binary", bytearray(b"x"), b"x"),
    ("date", date(2026, 1, 2), SAME),
    ("date", NOON, date(2026, 1, 2)),
    ("timestamp", NOON, SAME),
    ("timestamp", pd.Timestamp(NOON), NOON),
    ("timestamp", NOON.astimezone(UTC), NOON),
    ("timestamp_ntz", NOON, SAME),
    ("decimal(10,2)", Decimal("1.5"), Decimal("1.50")),
    ("decimal(38,0)", Decimal("9" * 38), SAME),
    ("array<int>", (1, None), [1, None]),
    ("map<string,array<int>>", {"a": [1], "b": None}, SAME),
    ("struct<x: int, y: string>", (1, None), Row(x=1, y=None)),
    ("struct<x: int, y: string>", Row(x=1, y="z"), SAME),
    ("string", None, SAME),
]


@pytest.mark.parametrize(("ddl", "value", "back"), VALUES, ids=str)
def test_a_value_comes_back_as_from_the_store_of_spark(ddl: str, value: Any, back: Any) -> None:
    columns = Columns(columns_of(f"`a b` {ddl}", "here"), "here")
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(columns.store((value,))), type=columns.stored)
    expected = value if back is SAME else back
    (found,) = columns.load(stored)
    assert repr(found) == repr(expected)
    assert columns.load_row(stored) == Row("a b")(expected)


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("tinyint", 128),
        ("bigint", 2**63),
        ("bigint", True),
        ("bigint", 1.0),
        ("bigint", "1"),
        ("double", 1),
        ("float", 1e39),
        ("string", 1),
        ("binary", "x"),
        ("boolean", 1),
        ("date", "2026-01-01"),
        ("timestamp", 0),
        ("timestamp_ntz", NOON.astimezone(UTC)),
        ("decimal(4,2)", Decimal("1.005")),
        ("decimal(4,2)", Decimal(100)),
        ("decimal(4,2)", Decimal("nan")),
        ("decimal(4,2)", 1),
        ("array<int>", "12"),
        ("array<int>", ["1"]),
        ("map<string,int>", [("a", 1)]),
        ("map<string,int>", {None: 1}),
        ("struct<x: int>", (1, 2)),
        ("int not null", None),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_an_error(ddl: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^here"):
        Columns(columns_of(f"a {ddl}", "here"), "here").store((value,))


def test_keys_have_the_digits_of_their_type_and_no_null() -> None:
    keys = KeyColumns(columns_of("d decimal(5,2), t timestamp, n int", "here"), "here")
    given = (Decimal("1.50"), NOON, 3)
    assert keys.load(msgspec.convert(msgspec.to_builtins(keys.store(given)), keys.stored)) == given
    assert str(keys.load(keys.store((Decimal("1.5"), NOON, 3)))[0]) == "1.50"
    with pytest.raises(ValueError, match="here: n cannot be NULL"):
        keys.store((Decimal(1), NOON, None))


def test_a_struct_type_has_the_columns_of_its_ddl() -> None:
    fields = StructType(
        [
            StructField("d", DecimalType(10, 2)),
            StructField("a", ArrayType(IntegerType()), nullable=False),
            StructField("m", MapType(StringType(), StructType([StructField("x", IntegerType())]))),
        ]
    )
    ddl = "d decimal(10,2), a array<int> not null, m map<string,struct<x:int>>"
    assert pa.schema(columns_of(fields, "here")) == pa.schema(columns_of(ddl, "here"))
    with pytest.raises(InvalidJobError, match="here: the schema is columns"):
        columns_of(StructType([]), "here")


def test_a_new_column_is_none_in_older_values() -> None:
    before, after = (Columns(columns_of(ddl, "here"), "here") for ddl in ("n int", "n int, s string"))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(before.store((1,))), type=after.stored)
    assert after.load(stored) == (1, None)
    assert describe(after.stored) == {
        "record": {
            "n": {"type": {"union": ["int", "None"]}, "required": False},
            "s": {"type": {"union": ["str", "None"]}, "required": False},
        }
    }


def test_a_time_is_stored_in_utc() -> None:
    columns = Columns(columns_of("t timestamp", "here"), "here")
    given = datetime(2026, 7, 1, tzinfo=UTC) + timedelta(microseconds=1)
    assert msgspec.to_builtins(columns.store((given,)), builtin_types=(datetime,)) == {"t": given}
