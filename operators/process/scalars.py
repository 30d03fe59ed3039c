"""Checks for values of plain types. They are checked when they are set, so that an error names the line that set them.

Values of composed types (lists, records, ...) may change in place. So they are checked at the end of the key's turn, by
decoding the encoded bytes (operators/process/codec.py).
"""

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Real
from types import UnionType
from typing import Any, NoReturn, Union, get_args, get_origin

import numpy as np

#: {type: function that converts a compatible value to the type, or raises TypeError}
_CONVERSIONS: dict[type, Callable[[Any], Any]] = {}


class Scalar:
    """A plain type, or `plain | None`. Values of the class `exact` stay as they are; None: there is no such class."""

    __slots__ = ("_conversion", "_is_optional", "_type", "exact")

    def __init__(self, plain: type, *, is_optional: bool) -> None:
        self._type = plain
        self.exact = None if plain is datetime else plain
        self._is_optional = is_optional
        self._conversion = _CONVERSIONS.get(plain, _refuse)

    def convert(self, value: Any) -> Any:
        """Return the value to store. Raise TypeError for values of another type.

        Numpy scalars become Python values, and a datetime with a time zone is in UTC, as it comes back from the state.
        """
        if value is None and self._is_optional:
            return None
        if value.__class__ is self.exact:
            return value
        try:
            return self._conversion(value)
        except TypeError:
            optional = " | None" if self._is_optional else ""
            msg = (
                f"this state is declared to hold {self._type.__name__}{optional}, and was given a "
                f"{type(value).__name__}. value={value!r:.100}"
            )
            raise TypeError(msg) from None


def scalar_of(value_type: Any) -> Scalar | None:
    """Return the Scalar of a plain type, with or without `| None`; None for a composed type."""
    alternatives = get_args(value_type) if get_origin(value_type) in (Union, UnionType) else (value_type,)
    plain = [each for each in alternatives if each is not type(None)]
    is_optional = len(plain) < len(alternatives)
    if len(plain) == 1 and isinstance(plain[0], type) and (plain[0] in _CONVERSIONS or issubclass(plain[0], Enum)):
        return Scalar(plain[0], is_optional=is_optional)
    return None


def _refuse(value: Any) -> NoReturn:
    raise TypeError(type(value))


def _float(value: Any) -> float:
    return float(value) if isinstance(value, Real) else _refuse(value)


def _str(value: Any) -> str:
    return str.__str__(value) if isinstance(value, str) else _refuse(value)


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _refuse(value)


def _bool(value: Any) -> bool:
    return bool(value) if isinstance(value, np.bool_) else _refuse(value)


def _datetime(value: Any) -> datetime:
    if not isinstance(value, datetime):
        _refuse(value)
    if hasattr(value, "to_pydatetime"):  # pandas.Timestamp
        value = value.to_pydatetime()
    if value.__class__ is not datetime:
        _refuse(value)
    return value if value.tzinfo is None or value.tzinfo is UTC else value.astimezone(UTC)


_CONVERSIONS.update(
    {int: operator.index, float: _float, str: _str, bytes: _bytes, bool: _bool, datetime: _datetime}
    | dict.fromkeys((date, time, timedelta, Decimal), _refuse)
)
