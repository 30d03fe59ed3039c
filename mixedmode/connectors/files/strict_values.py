"""Values in text files that map tasks convert on Arrow exactly as Spark does: numbers, and times of the usual forms.

Spark converts further forms, such as the date `2001-1-2` or a time of another zone. Whoever reads these, must leave the
file to Spark (DoubtfulTextError).
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["EXACT_TYPES", "DoubtfulTextError", "as_times", "check_doubles", "is_time"]

#: {Spark's name of a type: its Arrow type}, of the columns that tasks read of a text file
EXACT_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
)
_OF_DATES = {10}  # 2001-02-03
_OF_TIMES = {19, 21, 22, 23, 24, 25, 26}  # 2001-02-03 10:11:12, also with a fraction of one to six digits
_ZONES = ("Z", "+00:00")
#: Java and C++ agree on all doubles but some of those near the least normal one
_SMALLEST = 1e-300


class DoubtfulTextError(Exception):
    """A part of a text file is not in a form of which it is known that Spark reads it in the same way."""


def is_time(data_type: pa.DataType) -> bool:
    """Return whether the values of a type are texts in a file, which `as_times` converts."""
    return bool(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type))


def as_times(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert texts to dates or timestamps. Raise DoubtfulTextError if one is not of the usual form.

    The usual forms are 2001-02-03, and for a timestamp also 2001-02-03 10:11:12.131415, of which the fraction may be
    shorter or absent, and T for the blank. All instants of a block have the zone Z, or +00:00, or none, which is UTC.
    Each form of Arrow's without a zone has its own length.
    """
    is_date, is_instant = pa.types.is_date(data_type), getattr(data_type, "tz", None) is not None
    zone = _zone(texts) if is_instant else ""
    if zone:
        texts = pc.utf8_slice_codeunits(texts, 0, -len(zone))
    usual = _OF_DATES if is_date else _OF_TIMES if zone else _OF_DATES | _OF_TIMES
    if not usual.issuperset(pc.unique(pc.binary_length(texts).drop_null()).to_pylist()):
        msg = "a time of another form"
        raise DoubtfulTextError(msg)
    try:
        times = texts.cast(pa.date32() if is_date else pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise DoubtfulTextError(str(error)) from error
    return times.view(data_type) if is_instant else times


def check_doubles(values: pa.Array) -> None:
    """Raise DoubtfulTextError if a double is so small that Java may have read another one, or a negative zero."""
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    if len(numbers) and np.abs(numbers).min() < _SMALLEST:
        small = np.abs(numbers) < _SMALLEST
        if (numbers[small] != 0).any() or np.signbit(numbers[small]).any():
            msg = "a double next to zero"
            raise DoubtfulTextError(msg)


def _zone(texts: pa.Array) -> str:
    """Return the zone of all times; "" if they have none, or another one."""
    some = texts.drop_null()
    first = some[0].as_py() if len(some) else ""
    zone = next((zone for zone in _ZONES if first.endswith(zone)), "")
    if zone and not pc.all(pc.ends_with(some, zone)).as_py():
        msg = "times with and without a zone"
        raise DoubtfulTextError(msg)
    return zone
