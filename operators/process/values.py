"""Conversion of Python values to Arrow columns, without loss.

Arrow does the conversion, but silently accepts some values that are mistakes in a row: 1.5 for an integer (as 1), a
datetime for a date (as its day), 1e300 for a float (as infinity), text for a list (as its letters), a struct with
unknown fields. This module rejects them, most by the class of the value, for all values of a column at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: the exceptions of pyarrow, and of `array_of`, for values that cannot become a column
UNFIT = (KeyError, TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException)

_SMALL_FLOATS = (pa.float16(), pa.float32())
_FRACTIONS = (float, Decimal, np.floating)
#: (predicate of types, classes of values that these types would accept with a loss)
_REFUSED: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (pa.types.is_integer, _FRACTIONS),
    (pa.types.is_timestamp, _FRACTIONS),
    (pa.types.is_floating, (bool,)),
    (pa.types.is_date, (datetime,)),
    (pa.types.is_string, (bytes, bytearray)),
    (pa.types.is_large_string, (bytes, bytearray)),
    (pa.types.is_binary, (str,)),
    (pa.types.is_large_binary, (str,)),
    (pa.types.is_list, (str, bytes, bytearray, Mapping)),
    (pa.types.is_large_list, (str, bytes, bytearray, Mapping)),
)


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Return a column of the values; None is NULL. Raise one of UNFIT if a value does not fit the type without loss."""
    _check(values, data_type)
    return pa.array(values, data_type)


def _check(values: Sequence[Any], data_type: pa.DataType) -> None:
    """Raise TypeError for values that Arrow would accept with a loss."""
    refused = next((classes for is_kind, classes in _REFUSED if is_kind(data_type)), ())
    for found in set(map(type, values)):
        if refused and issubclass(found, refused):
            msg = f"a {found.__name__} would lose something as {data_type}"
            raise TypeError(msg)
    if data_type in _SMALL_FLOATS and _has_new_infinity(values, pa.array(values, data_type)):
        msg = f"a number is too large for {data_type}"
        raise TypeError(msg)
    if pa.types.is_timestamp(data_type) and data_type.tz is None and any(map(_has_zone, values)):
        msg = f"a datetime with a time zone would lose it as {data_type}"
        raise TypeError(msg)
    if pa.types.is_nested(data_type):
        _check_nested([value for value in values if value is not None], data_type)


def _has_new_infinity(values: Sequence[Any], column: pa.Array) -> bool:
    """Return whether a column of floats (n,) has an infinity that these numbers (n,) do not have."""
    places = pc.indices_nonzero(pc.fill_null(pc.is_inf(column), False)).to_pylist()
    return any(not math.isinf(values[place]) for place in places)


def _has_zone(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _check_nested(values: Sequence[Any], data_type: pa.DataType) -> None:
    if pa.types.is_struct(data_type):
        names = [data_type.field(i).name for i in range(data_type.num_fields)]
        for value in values:
            if not isinstance(value, Mapping) or set(value) != set(names):
                msg = f"a struct needs a mapping with just the fields {', '.join(names)}"
                raise TypeError(msg)
        for i, name in enumerate(names):
            _check([value[name] for value in values], data_type.field(i).type)
    elif pa.types.is_map(data_type):
        pairs = list(chain.from_iterable(value.items() if isinstance(value, Mapping) else value for value in values))
        _check([pair[0] for pair in pairs], data_type.key_type)
        _check([pair[1] for pair in pairs], data_type.item_type)
    else:
        _check(list(chain.from_iterable(values)), data_type.value_type)
