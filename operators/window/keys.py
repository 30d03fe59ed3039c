"""Keys that contain a time, by which windows are ordered in the sorter and in the state.

A time is encoded as a separate key column (mixedmode/keys/encode.py). So byte order is time order, and a range of times
within a key group is one range of stored keys:

    marker u8 (1) | time i64, big-endian, sign flipped

For un-keyed input, every record gets the same constant key. So no other code treats un-keyed input differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import Groups, KeySchema, encode_keys, group_codes, key_groups
from mixedmode.keys.rows import binary_rows, read_at
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.keys import range_of_group
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

TIME_BYTES = 9
_MARKER = b"\x01"
_SIGN = np.uint64(2**63)
_TIME_SCHEMA = KeySchema((pa.field("time", pa.int64()),))
_ONE_KEY = KeySchema((pa.field("key", pa.int8()),))

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedKeys:
    """The distinct keys of a batch. `numbers`: the index of each record's key, and the first record of each key.

    `encoded` (keys,) are the encoded keys, and `groups` (keys,) their key groups (uint16).
    """

    numbers: Groups
    encoded: pa.Array
    groups: npt.NDArray[np.uint16]


def stored_schema(key_schema: KeySchema | None) -> KeySchema:
    """Return the schema of the sorted and stored keys: the user's schema, or that of the constant key."""
    return _ONE_KEY if key_schema is None else key_schema


def number_keys(
    keys: Sequence[pa.Array], key_schema: KeySchema | None, rows: int, *, max_parallelism: int
) -> NumberedKeys:
    """Number the distinct keys of `rows` records; `keys` is empty if `key_schema` is None."""
    columns = list(keys) if key_schema is not None else [pa.array(np.zeros(rows, np.int8))]
    numbers = group_codes(columns)
    first = pa.array(numbers.first_row)
    encoded = encode_keys([column.take(first) for column in columns], stored_schema(key_schema))
    return NumberedKeys(numbers, encoded, key_groups(encoded, max_parallelism=max_parallelism))


def encoded_times(times_us: Int64s) -> pa.Array:
    """Encode times (n,) in microseconds as fixed_size_binary(9) (n,)."""
    return encode_keys([pa.array(times_us)], _TIME_SCHEMA)


def leading_times(keys: pa.Array) -> Int64s:
    """Return the times (n,) with which the keys begin, int64 microseconds."""
    rows = binary_rows(keys)
    return _decoded(rows.data, rows.starts + 1)


def trailing_times(keys: pa.Array) -> Int64s:
    """Return the times (n,) with which the keys end, int64 microseconds."""
    rows = binary_rows(keys)
    return _decoded(rows.data, rows.ends - TIME_BYTES + 1)


def joined(*parts: pa.Array) -> pa.Array:
    """Concatenate keys row by row, (n,): fixed_size_binary if all parts are, else large_binary."""
    if not all(pa.types.is_fixed_size_binary(part.type) for part in parts):
        wide = [part.cast(pa.large_binary()) for part in parts]
        return pc.binary_join_element_wise(*wide, pa.scalar(b"", pa.large_binary()))
    rows, width = len(parts[0]), sum(part.type.byte_width for part in parts)
    out, at = np.empty((rows, width), np.uint8), 0
    for part in parts:
        out[:, at : at + part.type.byte_width] = FixedBytes.of(part).rows
        at += part.type.byte_width
    return FixedBytes(out).fixed_size_binary()


def time_range(key_group: int, state_id: int, after_us: int, up_to_us: int) -> tuple[bytes, bytes]:
    """Return (start, end) of the stored keys whose leading time is in (after, up to]: start <= key < end.

    Requires after_us < up_to_us. After MIN_TIME_US or less, and up to MAX_TIME_US, means no bound. For (4, 9] the range
    starts at the encoding of 5 and ends before the encoding of 10.
    """
    assert after_us < up_to_us, (after_us, up_to_us)
    first, last = range_of_group(key_group, state_id)
    start = first if after_us <= MIN_TIME_US else first + _encoded(after_us + 1)
    end = last if up_to_us == MAX_TIME_US else first + _encoded(up_to_us + 1)
    return start, end


def _encoded(time_us: int) -> bytes:
    return _MARKER + (time_us + 2**63).to_bytes(8, "big")


def _decoded(data: npt.NDArray[np.uint8], positions: Int64s) -> Int64s:
    words: npt.NDArray[np.uint64] = read_at(data, ">u8", positions).astype(np.uint64)
    return (words ^ _SIGN).view(np.int64)
