"""The types that tasks compute with, by their names in Spark's SQL."""

import re
from collections.abc import Mapping

import pyarrow as pa

__all__ = ["type_named"]

_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def type_named(name: str) -> pa.DataType | None:
    """Return the type of a column with values of a type of Spark; None for one with parts, a collation, or a length."""
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _TYPES.get(name)
