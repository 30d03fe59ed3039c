"""The stored form of a state key: key group (u16, big-endian) | state id (u8) | key | namespace.

The byte order is (key group, state id, key, namespace), so a range of key groups is one contiguous range of keys.

    Example: the key b"k" in key group 5 and state 1 is stored as 00 05 01 6b.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.encode import KeySchema
from mixedmode.keys.rows import binary_rows
from mixedmode.state.arrow_bytes import ArrowBytes, large_binary
from mixedmode.state.fixed_bytes import FixedBytes, fixed_rows, put_columns

PREFIX_BYTES = 3


def stored_keys(key_groups: npt.NDArray[np.uint16], keys: pa.Array, state_id: int) -> Sequence[bytes]:
    """Return (n,) stored keys, in the order of `keys`: FixedBytes for fixed_size_binary, otherwise ArrowBytes.

    `keys` is fixed_size_binary or large_binary without NULL.
    """
    return joined_keys(key_groups, [keys], state_id)


def joined_keys(key_groups: npt.NDArray[np.uint16], parts: Sequence[Any], state_id: int) -> Sequence[bytes]:
    """Return (n,) stored keys, each made of one element of all parts: FixedBytes if all have a fixed width.

    A part is a column (n,) as that of `stored_keys`, or a large_binary scalar, which all keys have. All bytes are
    copied once.
    """
    prefixes = FixedBytes(_prefixes(key_groups, state_id))
    if all(pa.types.is_fixed_size_binary(part.type) for part in parts):
        return _beside([prefixes, *map(FixedBytes.of, parts)])
    nothing = pa.scalar(b"", pa.large_binary())  # between the parts
    columns = [part.cast(pa.large_binary()) for part in parts]
    return ArrowBytes(pc.binary_join_element_wise(prefixes.large_binary(), *columns, nothing))


def _beside(parts: Sequence[FixedBytes]) -> FixedBytes:
    rows, start = np.empty((len(parts[0]), sum(part.width for part in parts)), np.uint8), 0
    for part in parts:
        put_columns(rows, start, part.rows)
        start += part.width
    return FixedBytes(rows)


def _prefixes(key_groups: npt.NDArray[np.uint16], state_id: int) -> npt.NDArray[np.uint8]:
    prefixes = np.empty((len(key_groups), PREFIX_BYTES), np.uint8)
    put_columns(prefixes, 0, key_groups.astype(">u2").view(np.uint8).reshape(-1, 2))
    prefixes[:, 2] = state_id
    return prefixes


def cut_keys(stored: Sequence[bytes], schema: KeySchema, *, before: int, after: int = 0) -> pa.Array:
    """Return the keys in stored keys (n,), without the first `before` bytes and the last `after` bytes of each."""
    if schema.width is not None:
        whole = fixed_rows(stored).reshape(len(stored), before + schema.width + after)
        return FixedBytes(whole[:, before : before + schema.width]).fixed_size_binary()
    rows = binary_rows(large_binary(stored))
    lengths = rows.ends - rows.starts - before - after
    bounds = np.zeros(len(stored) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    positions = np.repeat(rows.starts + before - bounds[:-1], lengths) + np.arange(bounds[-1])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(rows.data[positions])]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(stored), buffers)


def after_prefix(prefix: bytes) -> bytes:
    """Return the least key that sorts after all keys with `prefix`.  `prefix` holds key group and state id.

    Example: after 00 05 01 ff comes 00 05 02.
    """
    assert len(prefix) >= PREFIX_BYTES, prefix.hex()
    grown = prefix.rstrip(b"\xff")  # never empty, as key groups end below 2**15
    return grown[:-1] + bytes([grown[-1] + 1])


def range_of_group(key_group: int, state_id: int) -> tuple[bytes, bytes]:
    """Return the bounds of the stored keys of a state in a key group: start <= key < end."""
    prefix = key_group << 8 | state_id
    return prefix.to_bytes(PREFIX_BYTES, "big"), (prefix + 1).to_bytes(PREFIX_BYTES, "big")


def range_of_groups(start: int, end: int) -> tuple[bytes, bytes]:
    """Return the bounds of the stored keys of the key groups [start, end), of all states: first <= key < after."""
    return start.to_bytes(PREFIX_BYTES - 1, "big"), end.to_bytes(PREFIX_BYTES - 1, "big")
