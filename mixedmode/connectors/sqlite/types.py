"""Maps Arrow columns to SQLite: the type of a created column, other declared types that fit, and the stored values.

    Arrow                     created as   value
    bool                      INTEGER      0 or 1
    int8 ... int64            INTEGER      itself
    float, double             REAL         itself; NaN is NULL, because SQLite has none
    decimal                   TEXT         its digits, since SQLite would round it
    string                    TEXT         itself
    binary                    BLOB         itself
    date, time, timestamp     TEXT         ISO, as SQLite's functions read it; with a zone it is UTC and ends in Z
    duration                  INTEGER      microseconds
    list, struct, map         TEXT         JSON, which SQLite's functions read

SQLite converts values by the *affinity* of the declared type, and does not refuse them. So a column that already exists
must have an affinity that changes nothing.  Source: https://www.sqlite.org/datatype3.html
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.sinks.tables.text import as_text, is_nested

__all__ = ["created_as", "holds", "values_of"]

_INTEGER, _REAL, _TEXT, _BLOB, _NUMERIC = "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC"


def created_as(field: pa.Field) -> str:
    """Return the type that a column is created with. Raises InvalidJobError for a type that SQLite cannot store."""
    data_type = field.type
    if pa.types.is_boolean(data_type) or pa.types.is_signed_integer(data_type) or pa.types.is_duration(data_type):
        return _INTEGER
    if pa.types.is_floating(data_type):
        return _REAL
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return _BLOB
    if _is_text(data_type):
        return _TEXT
    msg = (
        "SQLite has no type for a column of this output. Cast it in a sql step, to a string for example. "
        f"column={field.name}, type={data_type}"
    )
    raise InvalidJobError(msg)


def holds(declared: str, field: pa.Field) -> bool:
    """Return whether a column of this declared type stores every value unchanged."""
    created, affinity = created_as(field), _affinity(declared)
    if affinity in {_BLOB, created}:
        return True
    if created == _INTEGER:
        return affinity == _NUMERIC
    is_no_number = pa.types.is_temporal(field.type) or is_nested(field.type)
    return created == _TEXT and affinity == _NUMERIC and is_no_number


def values_of(column: pa.ChunkedArray) -> Sequence[Any]:
    """Return (n,) values for Python's SQLite module."""
    data_type = column.type
    if pa.types.is_floating(data_type):
        column = pc.if_else(pc.is_nan(column), None, column)
    elif pa.types.is_boolean(data_type):
        column = column.cast(pa.int8())
    elif pa.types.is_duration(data_type):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    elif _is_text(data_type) and not (pa.types.is_string(data_type) or pa.types.is_large_string(data_type)):
        column = pa.chunked_array([as_text(chunk) for chunk in column.chunks], pa.string())
    return _as_list(column)


def _as_list(column: pa.ChunkedArray) -> Sequence[Any]:
    """Return the same as `to_pylist`, several times faster for numbers."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return list(column.to_pylist())
    if not column.null_count:
        return list(column.to_numpy().tolist())
    values = column.fill_null(0).to_numpy().astype(object)
    values[np.asarray(column.is_null())] = None
    return list(values)


def _is_text(data_type: pa.DataType) -> bool:
    is_string = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
    is_moment = pa.types.is_date(data_type) or pa.types.is_timestamp(data_type) or pa.types.is_time(data_type)
    return is_string or is_moment or pa.types.is_decimal(data_type) or is_nested(data_type)


def _affinity(declared: str) -> str:
    """Return the affinity of a declared type by SQLite's rules, in their order."""
    name = declared.upper()
    if "INT" in name:
        return _INTEGER
    if "CHAR" in name or "CLOB" in name or "TEXT" in name:
        return _TEXT
    if "BLOB" in name or not name:
        return _BLOB
    if "REAL" in name or "FLOA" in name or "DOUB" in name:
        return _REAL
    return _NUMERIC
