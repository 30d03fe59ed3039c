"""Checks what lines of JSON and CSV cannot hold: times outside of the years 1 to 9999, and text that is not UTF-8.

The year of a time in text has four digits for readers, and Arrow's own texts are wrong from the year 32768 on.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError

__all__ = ["check_values"]

_DAYS = (-719_162, 2_932_896)  # the first and the last day of these years, since 1970
_DAY_US = 86_400_000_000
_TIMES_US = (_DAYS[0] * _DAY_US, (_DAYS[1] + 1) * _DAY_US - 1)


def check_values(name: str, column: pa.ChunkedArray) -> None:
    """Raise InvalidJobError if the column of this name has a value, also a nested one, that lines cannot hold."""
    for values in (one for chunk in column.chunks for one in _leaves(chunk)):
        kind = values.type
        if pa.types.is_date32(kind):
            _check_times(name, values.cast(pa.int32()), _DAYS)
        elif pa.types.is_timestamp(kind):
            _check_times(name, values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()), _TIMES_US)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            _check_text(name, values)


def _check_times(name: str, values: pa.Array, bounds: tuple[int, int]) -> None:
    found = pc.min_max(values).as_py()
    if found["min"] is not None and not bounds[0] <= found["min"] <= found["max"] <= bounds[1]:
        msg = (
            "a column of the output has a date or a time before the year 1 or after 9999, which lines of JSON and CSV "
            "cannot hold. Filter such rows out in a sql step, cast the column to bigint, or write Parquet. "
            f"column={name}"
        )
        raise InvalidJobError(msg)


def _check_text(name: str, values: pa.Array) -> None:
    is_large = pa.types.is_large_string(values.type)
    try:
        values.cast(pa.large_binary() if is_large else pa.binary()).cast(values.type)  # the cast to text validates
    except pa.ArrowInvalid as error:
        msg = (
            "a column of the output has text that is not UTF-8, which lines of JSON and CSV cannot hold. Write "
            f"make_valid_utf8(...) or base64(...) of it in a sql step, or write Parquet. column={name}"
        )
        raise InvalidJobError(msg) from error


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """Yield arrays with the values of an array that have no parts."""
    kind = values.type
    if pa.types.is_map(kind):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        parts = [part.slice(first, last - first) for part in (values.keys, values.items)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts = [values.flatten()]
    elif pa.types.is_struct(kind):
        parts = values.flatten()
    else:
        yield values
        return
    for part in parts:
        yield from _leaves(part)
