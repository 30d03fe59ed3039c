"""Keys of dictionaries: keys that are equal in Python get one form, so they also have equal bytes in the state.

Without it, 0.0 and -0.0, Decimal("1.5") and Decimal("1.50"), and one time of day in two zones are one key within an
epoch, and two in the state. NaN is no key for Python, as it does not equal itself; here, all NaN are one key, as in
Spark's GROUP BY.

Invariant (tests/operators/process/test_map_keys.py): a == b or both are NaN, if and only if encoded(one_form(a)) ==
encoded(one_form(b)).
"""

import dataclasses
import math
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["encoder", "in_order", "one_form"]

_NAN, _DECIMAL_NAN = math.nan, Decimal("nan")
_ZEROS_MAX = 38  # of a Decimal: more of them stay an exponent
_DAY = timedelta(days=1)
#: the offset of a time of day that is on another day in UTC
_FAR = timedelta(hours=23, minutes=59)
_MIDNIGHT = datetime(2000, 1, 1, tzinfo=UTC)

#: encodes keys; equal sets have equal bytes, and so have records whose class lists the same fields in another order
encoder = msgspec.msgpack.Encoder(order="sorted").encode


def one_form(key: Any) -> Any:
    """Return the form of a key that all keys have that equal it; the key itself if it is an int, text or bytes."""
    if isinstance(key, float):
        return _NAN if key != key else key + 0.0  # noqa: PLR0124 - NaN; -0.0 + 0.0 is 0.0
    if isinstance(key, Decimal):
        return _decimal(key)
    if isinstance(key, time):
        return key if key.tzinfo is None else _time(key)
    if isinstance(key, tuple):
        parts = map(one_form, key)
        return type(key)(*parts) if hasattr(key, "_fields") else tuple(parts)
    if isinstance(key, frozenset):
        return frozenset(map(one_form, key))
    if isinstance(key, msgspec.Struct):
        return msgspec.structs.replace(key, **{name: one_form(getattr(key, name)) for name in key.__struct_fields__})
    if dataclasses.is_dataclass(key) and not isinstance(key, type):
        found = {field.name: one_form(getattr(key, field.name)) for field in dataclasses.fields(key) if field.init}
        return dataclasses.replace(key, **found)
    return key


def in_order(key: Any) -> Any:
    """Return what keys of one type are sorted by: themselves, but NaN is the greatest, as in Spark's ORDER BY."""
    if isinstance(key, float | Decimal):
        is_nan = key != key  # noqa: PLR0124
        return (is_nan, 0 if is_nan else key)
    return tuple(map(in_order, key)) if isinstance(key, tuple) else key


def _decimal(number: Decimal) -> Decimal:
    if not number.is_finite():
        return _DECIMAL_NAN if number.is_nan() else number
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), number
    if not number:
        return Decimal(0)
    while digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if 0 < exponent <= _ZEROS_MAX:
        digits, exponent = digits + (0,) * exponent, 0
    return Decimal((sign, digits, exponent))


def _time(moment: time) -> time:
    """Return a time of day with an offset in UTC, or with the offset _FAR if it is on another day there."""
    since = datetime.combine(_MIDNIGHT, moment.replace(tzinfo=UTC)) - (moment.utcoffset() or timedelta()) - _MIDNIGHT
    offset = _FAR if since < timedelta() else -_FAR if since >= _DAY else timedelta()
    return (_MIDNIGHT + since + offset).timetz().replace(tzinfo=timezone(offset), fold=0)
