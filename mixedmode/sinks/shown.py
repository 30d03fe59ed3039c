"""Converts rows to Python values for display or for JSON, including times that Python's datetime cannot represent.

Spark's and Arrow's timestamps reach some 290,000 years before and after 1970, Python's datetime the years 1 to 9999.
"""

import base64
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from mixedmode.errors import InvalidJobError
from mixedmode.sinks.tables.text import as_text

_NOT_SHOWN = "(a time beyond the years 1 to 9999)"


def shown_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return `to_pylist`, with the columns of `shown_values`."""
    columns = [shown_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def shown_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return `to_pylist`; a column of times of which some are outside Python's range becomes text."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        if pat.is_timestamp(column.type) or pat.is_date(column.type):
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            return as_text(whole).to_pylist()  # type: ignore[no-any-return]
        return [_value(scalar) for scalar in column]


def plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows for JSON: times in ISO 8601, bytes as base64, and decimals and intervals as text.

    JSON has no infinite numbers and no NaN: they become None.
    """
    columns = [plain_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column for JSON, as in `plain_rows`."""
    values = shown_values(column)
    kind = column.type
    is_plain = pat.is_integer(kind) or pat.is_string(kind) or pat.is_boolean(kind)
    return values if is_plain else [_plain(value) for value in values]


@contextmanager
def only_times_of_python(what: str) -> Iterator[None]:
    """Convert Arrow's error for such a time, where the value must be a datetime, to an InvalidJobError."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        msg = (
            f"{what} has a date or a time before the year 1 or after 9999, which cannot be written there. Filter such "
            f"rows out in a sql step, or cast the column to bigint. cause={error}"
        )
        raise InvalidJobError(msg) from error


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _NOT_SHOWN


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [_plain(each) for each in value]
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
    return str(value)
