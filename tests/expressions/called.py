"""Functions that tests/expressions/test_functions_against_spark.py calls, in Spark's workers and in its own process."""

import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


class Level(enum.IntEnum):
    """A whole number with a text of its own."""

    LOW = 7


class Text(str):
    """A text that is of a class of its own."""

    __slots__ = ()


NEW_YEAR = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - a function may return a time without a zone
ODD_ZONE = dt.timezone(dt.timedelta(hours=-5, minutes=-17, seconds=3))
FLOATS = [0.0, -0.0, 0.1, float("nan"), float("inf"), -1e300, 5e-324, 3, np.float32(0.1), np.int8(4), None, 16777217.0]
#: {the type of results: some of them, which Spark converts in ways of its own}
RESULTS: dict[str, list[Any]] = {
    "boolean": [True, False, None, np.bool_(True)],
    "tinyint": [0, -128, 127, None, np.int64(5), Level.LOW],
    "smallint": [0, -(2**15), 2**15 - 1, None],
    "int": [0, -(2**31), 2**31 - 1, None],
    "bigint": [0, -(2**63), 2**63 - 1, None, Level.LOW, np.int8(-3)],
    "float": FLOATS,
    "double": FLOATS,
    "string": ["", "a\x00b", "ä😀", None, Text("own"), np.str_("numpy"), "\ufeff"],
    "binary": [b"", b"\x00\xff", None, bytearray(b"ab")],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None],
    "timestamp": [
        NEW_YEAR,
        NEW_YEAR.replace(year=1901, microsecond=999_999),
        None,
        pd.Timestamp(NEW_YEAR),
        NEW_YEAR.replace(year=1),
    ],
    "timestamp_ntz": [
        NEW_YEAR,
        NEW_YEAR.replace(tzinfo=ODD_ZONE),
        NEW_YEAR.replace(year=1),
        NEW_YEAR.replace(year=9999),
        None,
    ],
    "decimal(7,2)": [*map(Decimal, ("0", "-0", "1", "99999.99", "-99999.99", "1E+2", "1.50", "0.1")), None],
}
HALVES = ["a\ud800b", "\ud83d\ude00", "\udcff", "fine", None]
#: results that Spark rounds, refuses, or makes NULL of
RESULTS["timestamp"] += [dt.datetime(year, 12, 31, 23, tzinfo=ODD_ZONE) for year in (1, 2024, 9998)]
LEFT: dict[str, list[Any]] = {
    "decimal(7,2)": [*map(Decimal, ("1.005", "NaN", "1E+5", "Infinity"))],
    "timestamp": [dt.datetime(9999, 12, 31, 23, tzinfo=ODD_ZONE)],
}


def same(value: Any) -> Any:
    """The argument."""
    return value


def shown(*values: Any) -> str:
    """The arguments with their types."""
    return ", ".join(f"{type(value).__name__} {value!r}" for value in values)


def result(kind: str, number: int) -> Any:
    """A result of RESULTS, by its number."""
    values = RESULTS[kind]
    return values[number % len(values)]


def left(kind: str, number: int) -> Any:
    """A result of LEFT, by its number."""
    return LEFT[kind][number]


def half(number: int) -> Any:
    """A text with a half of a surrogate pair."""
    return HALVES[number % len(HALVES)]


def noted(file: str, name: str, value: int | None) -> int | None:
    """Note in a file that the function was called with a value, and return it."""
    with Path(file).open("a", encoding="utf-8") as out:
        out.write(f"{name} {value}\n")
    return value


def noted_arrow(file: pa.Array, name: pa.Array, values: pa.Array) -> pa.Array:
    """The same for a batch."""
    for value in values.to_pylist():
        noted(file[0].as_py(), name[0].as_py(), value)
    return values


def picky(value: int | None) -> int | None:
    """Twice the number. It raises for 13, and returns text for 7."""
    if value == 13:
        msg = "unlucky"
        raise ValueError(msg)
    return "seven" if value == 7 else None if value is None else 2 * value  # type: ignore[return-value]


def twice(value: int | None) -> int | None:
    """Twice the number."""
    return None if value is None else 2 * value


def label(text: str | None, number: int | None) -> str | None:
    """A text of both, NULL for one number."""
    return None if number == 8 else f"{text} {(number or 0) % 3}"


def lengths(texts: pa.Array, more: pa.Array) -> pa.Array:
    """The lengths of the texts, plus that of a constant."""
    assert texts.offset == more.offset == 0
    return pa.array([None if one is None else len(one) + len(more[0].as_py()) for one in texts.to_pylist()], pa.int64())


def types_of(*columns: pa.Array) -> pa.Array:
    """The types of the columns, and each value."""
    assert all(column.offset == 0 for column in columns)
    numbers = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns)
    rows = zip(*(column.to_pylist() for column in numbers), strict=True)
    return pa.array([f"{[str(column.type) for column in columns]} {row}" for row in rows])


def narrow(values: pa.Array) -> pa.Array:
    """Results of another type than the declared one."""
    return values.cast(pa.int32())


def short(values: pa.Array) -> pa.Array:
    """Fewer results than arguments."""
    return values.slice(1)


def series_of(*columns: pd.Series) -> pd.Series:
    """The types of the series, and each value."""
    kinds = [str(column.dtype) for column in columns]
    return pd.Series([f"{kinds} {row!r}" for row in zip(*columns, strict=True)])


def halved(values: pd.Series) -> pd.Series:
    """Half of the numbers."""
    return values / 2


def chosen(kind: pd.Series, values: Any) -> Any:
    """Results of a type, of numbers or texts."""
    wanted = str(kind.iloc[0])
    if wanted == "boolean":
        return values > 0
    if wanted == "string":
        return pd.Series([None if one != one else f"ä{one}" for one in values], dtype=object)  # noqa: PLR0124 - NaN
    return values.fillna(0).clip(-100, 100).astype({"tinyint": "int8", "int": "int32", "bigint": "int64"}[wanted])


def wrong_series(kind: pd.Series, values: pd.Series) -> object:
    """Results that Spark converts, or refuses."""
    wrong = {"floats": values, "list": values.tolist(), "short": values[1:], "mixed": values.astype(object)}
    return wrong[kind.iloc[0]]
