"""Values of Spark's columns in state: what a class gives and gets, and what is stored.

A class gives and gets tuples of Python values, as from Spark's state store. A value that Spark would store as NULL, or
changed, is an error here, as is one that does not fit its type. What comes back is what Spark returns: decimals with
the digits of their type, float with the precision of 32 bits, times without a zone in the local time of the machine.

    tinyint .. bigint  int     | double, float  float    | decimal  Decimal       | string str | binary bytes
    boolean            bool    | date           date     | timestamp  datetime, stored in UTC
    timestamp_ntz      int of microseconds               | array  list            | map  list of (key, value)
    struct, and the whole value: a struct with these fields, each of which may be None
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    Row,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mixedmode.errors import InvalidJobError
from mixedmode.operators.ddl import columns_in, type_in

__all__ = ["Columns", "KeyColumns", "columns_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LOCAL, _NO_ZONE = TimestampType(), TimestampNTZType()
_DIGITS_MAX = 80  # more than any decimal of Spark needs


@dataclass(frozen=True, slots=True)
class _Form:
    """The stored form of a type: its type, and the conversions of values that are not None."""

    stored: Any
    store: Callable[[Any], Any]
    load: Callable[[Any], Any]


class Columns:
    """The values of one schema: tuples for the class, structs in the state."""

    def __init__(self, fields: Sequence[pa.Field], where: str) -> None:
        self._fields = [
            (field.name, field.nullable, _form_of(field.type, f"{where}: {field.name}")) for field in fields
        ]
        self.fields = tuple(fields)
        self._where = where
        members = [(f"f{i}", form.stored | None, None) for i, (_, _, form) in enumerate(self._fields)]
        names = {f"f{i}": name for i, (name, _, _) in enumerate(self._fields)}
        #: the type of what is stored
        self.stored: Any = msgspec.defstruct("Columns", members, rename=names, frozen=True)
        self._row = Row(*(name for name, _, _ in self._fields))

    def store(self, value: Any) -> Any:
        """Return what is stored for a tuple. Raise TypeError or ValueError if it does not fit the schema."""
        return self.stored(*self.values(value))

    def values(self, value: Any) -> list[Any]:
        """Return what is stored for each field of a tuple."""
        if not isinstance(value, tuple | list):
            msg = f"{self._where}: a value is a tuple with one item for each column of its schema. value={value!r:.100}"
            raise TypeError(msg)
        if len(value) != len(self._fields):
            names = ", ".join(name for name, _, _ in self._fields)
            msg = f"{self._where}: the schema has {len(self._fields)} columns, {names}. value={value!r:.100}"
            raise ValueError(msg)
        return [
            _stored(one, form, is_nullable=is_nullable, where=f"{self._where}: {name}")
            for one, (name, is_nullable, form) in zip(value, self._fields, strict=True)
        ]

    def load(self, stored: Any) -> tuple[Any, ...]:
        """Return the tuple of a stored value."""
        return tuple(self._loaded(stored))

    def load_row(self, stored: Any) -> Any:
        """Return the Row of a stored value, with the names of its columns."""
        return self._row(*self._loaded(stored))

    def _loaded(self, stored: Any) -> list[Any]:
        found = []
        for i, (_, _, form) in enumerate(self._fields):
            value = getattr(stored, f"f{i}")
            found.append(None if value is None else form.load(value))
        return found


class KeyColumns(Columns):
    """The keys of a map state: tuples of values that are not NULL, stored as tuples. `stored` is their type."""

    def __init__(self, fields: Sequence[pa.Field], where: str) -> None:
        for field in fields:
            if pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
                msg = (
                    f"{where}: the keys of a map state have no arrays, maps, structs and floating-point numbers here, "
                    "because equal ones may have several forms. Make text or a decimal of it. "
                    f"column={field.name}, type={field.type}"
                )
                raise InvalidJobError(msg)
        super().__init__([field.with_nullable(False) for field in fields], where)
        self._forms = [form for _, _, form in self._fields]
        self.stored = tuple[tuple(form.stored for form in self._forms)]  # type: ignore[misc]

    def store(self, value: Any) -> Any:
        """Return what is stored for a key."""
        return tuple(self.values(value))

    def load(self, stored: Any) -> tuple[Any, ...]:
        """Return the tuple of a stored key."""
        return tuple(form.load(one) for form, one in zip(self._forms, stored, strict=True))


def columns_of(schema: Any, where: str) -> list[pa.Field]:
    """Return the columns of a schema: a StructType, or DDL. Raise InvalidJobError, beginning with `where`."""
    if isinstance(schema, str):
        return columns_in(schema, where=where)
    if not isinstance(schema, StructType) or not schema.fields:
        msg = f"{where}: the schema is columns, as a StructType or as DDL such as 'count long'. found={schema!r:.100}"
        raise InvalidJobError(msg)
    return [_field_of(field, where) for field in schema.fields]


def _field_of(field: StructField, where: str) -> pa.Field:
    return pa.field(field.name, _type_of(field.dataType, f"{where}: {field.name}"), field.nullable)


def _type_of(data_type: DataType, where: str) -> pa.DataType:
    if isinstance(data_type, StructType):
        return pa.struct([_field_of(field, where) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return pa.list_(_type_of(data_type.elementType, where))
    if isinstance(data_type, MapType):
        return pa.map_(_type_of(data_type.keyType, where), _type_of(data_type.valueType, where))
    return type_in(data_type.simpleString(), where=where)


_ADVICE = (
    "Use boolean, whole numbers, double, float, decimal, string, binary, date, timestamp, timestamp_ntz, and arrays, "
    "maps and structs of these."
)


def _stored(value: Any, form: _Form, *, is_nullable: bool, where: str) -> Any:
    value = _plain(value)
    if value is None:
        if not is_nullable:
            msg = f"{where} cannot be NULL."
            raise ValueError(msg)
        return None
    try:
        return form.store(value)
    except UnfitValueError as error:
        msg = f"{where} {error}. value={value!r:.100}, class={type(value).__name__}"
        raise TypeError(msg) from error.__cause__


def _plain(value: Any) -> Any:
    """Return the Python value of a scalar of numpy or pandas."""
    if isinstance(value, np.generic):
        return value.tolist()
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value


class UnfitValueError(Exception):
    """The reason why a value does not fit a type, as it follows the name of the column."""


def _form_of(data_type: pa.DataType, where: str) -> _Form:
    if pa.types.is_integer(data_type):
        return _Form(int, _whole(data_type), _same)
    if pa.types.is_decimal(data_type):
        return _Form(Decimal, _decimal(data_type), _with_digits(data_type.scale))
    if pa.types.is_timestamp(data_type):
        return _NTZ_FORM if data_type.tz is None else _TIMESTAMP_FORM
    for is_kind, form in _FORMS:
        if is_kind(data_type):
            return form
    if pa.types.is_list(data_type):
        return _array_form(data_type, where)
    if pa.types.is_map(data_type):
        return _map_form(data_type, where)
    if pa.types.is_struct(data_type):
        columns = Columns(list(data_type), where)
        return _Form(columns.stored, columns.store, columns.load_row)
    msg = f"{where}: a state cannot hold this type. {_ADVICE} type={data_type}"
    raise InvalidJobError(msg)


def _same(value: Any) -> Any:
    return value


def _whole(data_type: pa.DataType) -> Callable[[Any], int]:
    limit = 2 ** (data_type.bit_width - 1)

    def store(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            msg = "holds whole numbers, and Spark would store another value or NULL"
            raise UnfitValueError(msg)
        if not -limit <= value < limit:
            msg = f"holds whole numbers of {data_type.bit_width} bits, and Spark would store another number"
            raise UnfitValueError(msg)
        return value

    return store


def _instance_of(wanted: type | tuple[type, ...], what: str) -> Callable[[Any], Any]:
    def store(value: Any) -> Any:
        if not isinstance(value, wanted):
            msg = f"holds {what}, and Spark would store another value or NULL"
            raise UnfitValueError(msg)
        return value

    return store


def _single(value: Any) -> float:
    number = _FLOAT(value)
    if not math.isfinite(number):
        return float(number)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError as error:
        msg = "holds numbers of 32 bits, and this one is too large"
        raise UnfitValueError(msg) from error


def _decimal(data_type: pa.DataType) -> Callable[[Any], Decimal]:
    limit = Decimal(10) ** (data_type.precision - data_type.scale)
    with_digits = _with_digits(data_type.scale)

    def store(value: Any) -> Decimal:
        if not isinstance(value, Decimal) or not value.is_finite():
            msg = "holds decimals, and Spark would store NULL"
            raise UnfitValueError(msg)
        try:
            is_exact = with_digits(value) == value and -limit < value < limit  # abs() rounds
        except InvalidOperation:
            is_exact = False
        if not is_exact:
            msg = f"holds {data_type.precision} digits, {data_type.scale} of them after the point, and this has more"
            raise UnfitValueError(msg)
        return value

    return store


def _with_digits(scale: int) -> Callable[[Decimal], Decimal]:
    unit = Decimal(1).scaleb(-scale)

    def quantized(value: Decimal) -> Decimal:
        with localcontext(prec=_DIGITS_MAX):
            return value.quantize(unit)

    return quantized


def _day(value: Any) -> date:
    found: date = _DATE(value)
    return date.fromordinal(found.toordinal())  # of a datetime the day, as in Spark


def _moment(value: Any) -> datetime:
    micros: int = _LOCAL.toInternal(_DATETIME(value))
    return _EPOCH + timedelta(microseconds=micros)


def _local(stored: datetime) -> datetime:
    found: datetime = _LOCAL.fromInternal((stored - _EPOCH) // _MICROSECOND)
    return found


def _wall_clock(value: Any) -> int:
    if _DATETIME(value).tzinfo is not None:
        msg = "holds times without a time zone, and this one would lose its zone"
        raise UnfitValueError(msg)
    micros: int = _NO_ZONE.toInternal(value)
    return micros


_FLOAT = _instance_of(float, "floating-point numbers")
_DATE = _instance_of(date, "dates")
_DATETIME = _instance_of(datetime, "times")
_BYTES = _instance_of((bytes, bytearray), "bytes")
_LIST = _instance_of((list, tuple), "lists")
_DICT = _instance_of(Mapping, "dictionaries")
_NTZ_FORM = _Form(int, _wall_clock, _NO_ZONE.fromInternal)
_TIMESTAMP_FORM = _Form(datetime, _moment, _local)
_FORMS: tuple[tuple[Callable[[pa.DataType], bool], _Form], ...] = (
    (pa.types.is_boolean, _Form(bool, _instance_of(bool, "booleans"), _same)),
    (pa.types.is_float64, _Form(float, _FLOAT, _same)),
    (pa.types.is_float32, _Form(float, _single, _same)),
    (pa.types.is_string, _Form(str, _instance_of(str, "text"), _same)),
    (pa.types.is_binary, _Form(bytes, lambda value: bytes(_BYTES(value)), _same)),
    (pa.types.is_date32, _Form(date, _day, _same)),
)


def _array_form(data_type: pa.DataType, where: str) -> _Form:
    item = _form_of(data_type.value_type, where)

    def store(value: Any) -> list[Any]:
        return [_stored(one, item, is_nullable=True, where=where) for one in _LIST(value)]

    def load(stored: Any) -> list[Any]:
        return [None if one is None else item.load(one) for one in stored]

    return _Form(list[item.stored | None], store, load)  # type: ignore[name-defined]


def _map_form(data_type: pa.DataType, where: str) -> _Form:
    key, item = _form_of(data_type.key_type, where), _form_of(data_type.item_type, where)

    def store(value: Any) -> list[Any]:
        return [
            (
                _stored(name, key, is_nullable=False, where=f"{where}: a key"),
                _stored(one, item, is_nullable=True, where=where),
            )
            for name, one in _DICT(value).items()
        ]

    def load(stored: Any) -> dict[Any, Any]:
        return {key.load(name): None if one is None else item.load(one) for name, one in stored}

    return _Form(list[tuple[key.stored, item.stored | None]], store, load)  # type: ignore[name-defined]
