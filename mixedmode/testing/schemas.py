"""Conversion of columns as a test writes them to an Arrow schema, with the types that they have in a job. No Spark.

    "user string, clicks bigint"                  Spark DDL, as in the job's `output` and `schema`
    {"user": str, "clicks": "bigint"}             column: Python type, DDL type, or pyarrow type
    pa.schema([...])                              used unchanged

Invariant (tests/testing/test_schemas.py): a DDL text has the same columns here as in Spark.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias, TypeVar

import pyarrow as pa

from mixedmode.errors import InvalidJobError

#: the accepted forms of a column's type
ColumnType: TypeAlias = "type | str | pa.DataType"
#: the accepted forms of a schema
SchemaLike: TypeAlias = "str | Mapping[str, ColumnType] | pa.Schema"

_TIMESTAMP = pa.timestamp("us", "UTC")
_SPELLINGS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint byte": pa.int8(),
    "smallint short": pa.int16(),
    "int integer": pa.int32(),
    "bigint long": pa.int64(),
    "float real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp timestamp_ltz": _TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}
_PLAIN = {name: data_type for names, data_type in _SPELLINGS.items() for name in names.split()}
_DECIMAL = frozenset({"decimal", "dec", "numeric"})
_PYTHON: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: _TIMESTAMP,
    Decimal: pa.decimal128(38, 18),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:]|\S)")

_Parsed = TypeVar("_Parsed")


def schema_of(given: SchemaLike, *, where: str) -> pa.Schema:
    """Return the schema. Raises InvalidJobError, beginning with `where`, if it cannot be read."""
    if isinstance(given, pa.Schema):
        return given.remove_metadata()
    if isinstance(given, str):
        return pa.schema(_parse(given, _Ddl.columns, where))
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
        return _parse(given, _Ddl.data_type, where)
    if not isinstance(given, type) or given not in _PYTHON:
        known = ", ".join(one.__name__ for one in _PYTHON)
        msg = (
            f"{where}: this Python type is not the type of a column. Use one of {known}, a type as in Spark's DDL such "
            f"as 'array<int>', or a pyarrow type. found={given!r}"
        )
        raise InvalidJobError(msg)
    return _PYTHON[given]


def _parse(text: str, rule: Callable[["_Ddl"], _Parsed], where: str) -> _Parsed:
    ddl = _Ddl(text)
    try:
        parsed = rule(ddl)
        ddl.expect("")
    except _DdlError as error:
        msg = (
            f"{where}: {error}. Write columns as `name type, name type` with Spark's types, such as bigint, string, "
            f"timestamp, decimal(10, 2) or array<int>. found={text}"
        )
        raise InvalidJobError(msg) from error
    return parsed


class _DdlError(Exception):
    pass


class _Ddl:
    """A DDL text, token by token; the token `""` is its end."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_TOKEN.findall(text), ""]
        self._position = 0

    def columns(self) -> list[pa.Field]:
        """Read columns, each `name type` or `name type not null`, with commas between them."""
        found = [self._column()]
        while self._takes(","):
            found.append(self._column())
        return found

    def data_type(self) -> pa.DataType:
        """Read a type, with its type parameters."""
        name = self._next().lower()
        if name in _DECIMAL:
            return self._decimal()
        if name == "array":
            return pa.list_(self._inside(self.data_type))
        if name == "map":
            return self._inside(self._map)
        if name == "struct":
            return pa.struct(self._inside(self.columns))
        if name not in _PLAIN:
            msg = f"there is no type {name!r} here" if name else "the text ends where a type should be"
            raise _DdlError(msg)
        return _PLAIN[name]

    def expect(self, token: str) -> None:
        """Read the next token, which must be this one."""
        found = self._next()
        if found != token:
            msg = f"found {found!r} where {token or 'the end'!r} should be"
            raise _DdlError(msg)

    def _column(self) -> pa.Field:
        name = self._next()
        if name.startswith("`") and len(name) > 2:
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            msg = f"found {name!r} where the name of a column should be"
            raise _DdlError(msg)
        self._takes(":")
        data_type, is_nullable = self.data_type(), True
        if self._takes("not"):
            if not self._takes("null"):
                msg = "NOT is to be followed by NULL"
                raise _DdlError(msg)
            is_nullable = False
        return pa.field(name, data_type, is_nullable)

    def _decimal(self) -> pa.DataType:
        if not self._takes("("):
            return pa.decimal128(10, 0)
        digits, scale = self._number(), 0
        if self._takes(","):
            scale = self._number()
        self.expect(")")
        if not 1 <= digits <= 38 or scale > digits:
            msg = f"a decimal has 1 to 38 digits, and no more of them after the point: decimal({digits}, {scale})"
            raise _DdlError(msg)
        return pa.decimal128(digits, scale)

    def _map(self) -> pa.DataType:
        key = self.data_type()
        self.expect(",")
        return pa.map_(key, self.data_type())

    def _inside(self, rule: Callable[[], _Parsed]) -> _Parsed:
        self.expect("<")
        found = rule()
        self.expect(">")
        return found

    def _number(self) -> int:
        token = self._next()
        if not re.fullmatch(r"[0-9]{1,3}", token):
            msg = f"found {token!r} where a number should be"
            raise _DdlError(msg)
        return int(token)

    def _takes(self, token: str) -> bool:
        """Read the next token if it is this one, in any case. Return whether it was."""
        if self._tokens[self._position].lower() != token:
            return False
        self._position += 1
        return True

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return str(token)
