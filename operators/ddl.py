"""Reading of columns that are written as Spark DDL, without Spark.

Invariant (tests/testing/test_schemas.py): a DDL text has the same columns here as in Spark.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from mixedmode.errors import InvalidJobError

__all__ = ["TIMESTAMP", "columns_in", "type_in"]

TIMESTAMP = pa.timestamp("us", "UTC")
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
    "timestamp timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}
_PLAIN = {name: data_type for names, data_type in _SPELLINGS.items() for name in names.split()}
_DECIMAL = frozenset({"decimal", "dec", "numeric"})
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:]|\S)")

_Parsed = TypeVar("_Parsed")


def columns_in(text: str, *, where: str) -> list[pa.Field]:
    """Return the columns of `user string, clicks bigint`, say. Raise InvalidJobError, beginning with `where`."""
    return _parse(text, _Ddl.columns, where)


def type_in(text: str, *, where: str) -> pa.DataType:
    """Return the type that is written as `array<int>`, say. Raise InvalidJobError, beginning with `where`."""
    return _parse(text, _Ddl.data_type, where)


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
