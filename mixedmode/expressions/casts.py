"""Casts in Spark's ANSI mode, in UTC: a value that does not fit is an error. A decimal is rounded half up."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.expressions.kernels import ANSI, UTC, Kernel, integers, like
from mixedmode.expressions.times import DAY_US, dates_as_text, days_of
from mixedmode.expressions.values import Call, Node, Value

__all__ = ["CASTS"]

_DIGITS_MAX = 38
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # of the whole numbers with so many bits


def _cast(call: Call, given: Sequence[Value]) -> Value:
    value, wanted = given[0], call.data_type
    found = value.type
    if found == wanted:
        return value
    if types.is_timestamp(found) or types.is_date32(found):
        return _of_time(value, wanted)
    if types.is_decimal(wanted):
        return _to_decimal(value, wanted)
    if types.is_floating(wanted):
        return pc.cast(value, wanted, safe=False)  # rounded to the nearest
    return pc.cast(value, wanted)


def _of_time(value: Value, wanted: pa.DataType) -> Value:
    is_date = types.is_date32(value.type)
    if types.is_string(wanted):
        return dates_as_text(integers(value), value)
    if types.is_date32(wanted):
        return like(days_of(value), wanted, value)
    if is_date:
        days = like(integers(value).astype(np.int64), pa.int64(), value)
        return pc.multiply_checked(days, pa.scalar(DAY_US)).view(wanted)
    return value.view(wanted)


def _to_decimal(value: Value, wanted: pa.DataType) -> Value:
    found = value.type
    if types.is_integer(found):
        value = pc.cast(pc.cast(value, pa.int64()), pa.decimal128(_DIGITS_MAX, wanted.scale))
    elif found.scale > wanted.scale:
        wide = pc.cast(value, pa.decimal128(found.precision + 1, found.scale))  # 9.95 becomes 10.0
        value = pc.round(wide, wanted.scale, round_mode="half_towards_infinity")
    return pc.cast(value, wanted)


def _accepts(call: Call, arguments: Sequence[Node]) -> bool:
    found, wanted = arguments[0].data_type, call.data_type
    if found == wanted:
        return True
    mode, zone = call.options
    if mode != ANSI:
        return False
    if types.is_timestamp(found) or types.is_date32(found) or types.is_timestamp(wanted):
        return zone == UTC and _accepts_time(found, wanted)
    if types.is_decimal(wanted):
        return _accepts_decimal(found, wanted)
    if types.is_signed_integer(found) or types.is_boolean(found):
        return bool(types.is_signed_integer(wanted) or types.is_string(wanted) or _is_float_of_integer(found, wanted))
    # Spark leaves out the inner cast of CAST(CAST(x AS float) AS double), though it rounds whole numbers
    is_cast = isinstance(arguments[0], Call) and arguments[0].kind == "Cast"
    return bool(found == pa.float32() and wanted == pa.float64() and not is_cast)


def _is_float_of_integer(found: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(types.is_signed_integer(found)) and wanted in (pa.float32(), pa.float64())


def _accepts_time(found: pa.DataType, wanted: pa.DataType) -> bool:
    if types.is_date32(found):
        return bool(types.is_string(wanted) or types.is_timestamp(wanted))
    return bool(types.is_timestamp(found) and (types.is_timestamp(wanted) or types.is_date32(wanted)))


def _accepts_decimal(found: pa.DataType, wanted: pa.DataType) -> bool:
    if types.is_signed_integer(found):
        return bool(wanted.scale + _DIGITS[64] <= _DIGITS_MAX)
    return bool(types.is_decimal128(found)) and (found.scale <= wanted.scale or found.precision < _DIGITS_MAX)


def _raises(call: Call, arguments: Sequence[Node]) -> bool:
    found, wanted = arguments[0].data_type, call.data_type
    if types.is_signed_integer(found) and types.is_signed_integer(wanted):
        return bool(found.bit_width > wanted.bit_width)
    if types.is_decimal(wanted):
        digits = _DIGITS[found.bit_width] if types.is_integer(found) else found.precision - found.scale
        is_rounded = types.is_decimal(found) and found.scale > wanted.scale
        return bool(digits + is_rounded > wanted.precision - wanted.scale)
    return bool(types.is_date32(found) and types.is_timestamp(wanted))


CASTS: Mapping[str, Kernel] = {"Cast": Kernel(_cast, _accepts, _raises)}
