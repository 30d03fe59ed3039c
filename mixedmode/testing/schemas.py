"""Conversion of columns as a test writes them to an Arrow schema, with the types that they have in a job. No Spark.

    "user string, clicks bigint"                  Spark DDL, as in the job's `output` and `schema`
    {"user": str, "clicks": "bigint"}             column: Python type, DDL type, or pyarrow type
    pa.schema([...])                              used unchanged

Invariant (tests/testing/test_schemas.py): a DDL text has the same columns here as in Spark.
"""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.ddl import TIMESTAMP, columns_in, type_in

#: the accepted forms of a column's type
ColumnType: TypeAlias = "type | str | pa.DataType"
#: the accepted forms of a schema
SchemaLike: TypeAlias = "str | Mapping[str, ColumnType] | pa.Schema"

_PYTHON: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: TIMESTAMP,
    Decimal: pa.decimal128(38, 18),
}


def schema_of(given: SchemaLike, *, where: str) -> pa.Schema:
    """Return the schema. Raises InvalidJobError, beginning with `where`, if it cannot be read."""
    if isinstance(given, pa.Schema):
        return given.remove_metadata()
    if isinstance(given, str):
        return pa.schema(columns_in(given, where=where))
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        msg = (
            f"{where} must be columns: as Spark's DDL, such as 'user string, clicks bigint', as a dictionary of names "
            f"and types, or as a pyarrow.Schema. found={given!r:.200}"
        )
        raise InvalidJobError(msg)
    return pa.schema([pa.field(name, _type_of(found, f"{where}: {name}")) for name, found in given.items()])


def _type_of(given: ColumnType, where: str) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    if isinstance(given, str):
        return type_in(given, where=where)
    if not isinstance(given, type) or given not in _PYTHON:
        known = ", ".join(one.__name__ for one in _PYTHON)
        msg = (
            f"{where}: this Python type is not the type of a column. Use one of {known}, a type as in Spark's DDL such "
            f"as 'array<int>', or a pyarrow type. found={given!r}"
        )
        raise InvalidJobError(msg)
    return _PYTHON[given]
