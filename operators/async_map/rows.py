"""The rows of an async-map step in the sorter: the key of a row, followed by its place among the rows of the key.

_key = key (keys/encode.py) | event time, 9 bytes (operators/window/keys.py) | place in its batch u32, big-endian
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys.rows import binary_rows, cut
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, trailing_times
from mixedmode.state.fixed_bytes import FixedBytes

__all__ = ["ENDS", "joined_rows", "keys_of", "times_of"]

#: the column that is True in a row that is no row, but the end of the answer of its key
ENDS = "_ends"
_PLACE_BYTES = 4


def joined_rows(keys: pa.Array, times_us: Int64s, places: npt.NDArray[np.uint32]) -> pa.LargeBinaryArray:
    """Return the sorter's keys of rows (n,)."""
    place = FixedBytes(places.astype(">u4").view(np.uint8).reshape(len(places), _PLACE_BYTES)).fixed_size_binary()
    return joined(keys.cast(pa.large_binary()), encoded_times(times_us), place)


def keys_of(packed: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the encoded keys (n,) in the sorter's keys (n,)."""
    rows = binary_rows(packed)
    return cut(rows.data, rows.starts, rows.ends - TIME_BYTES - _PLACE_BYTES)


def times_of(packed: pa.LargeBinaryArray) -> Int64s:
    """Return the event times (n,) in the sorter's keys (n,), int64 microseconds."""
    rows = binary_rows(packed)
    ends = rows.ends - _PLACE_BYTES
    return trailing_times(cut(rows.data, rows.starts, ends))
