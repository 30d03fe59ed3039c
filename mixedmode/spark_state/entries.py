"""Entries of state, as they are written to a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.state import RowCodec
from mixedmode.state.arrow_bytes import large_binary
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

__all__ = ["Entries", "entries_of", "packed_entries", "present_entries"]

_PRESENT = b"\x01"  # the value of an entry whose key has all of its information


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of one state, (n,) each, in any order: key group, stored key and value."""

    state_id: int
    groups: npt.NDArray[np.uint16]
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray


def entries_of(state_id: int, keys: Sequence[bytes], values: Sequence[bytes]) -> Entries:
    """Return entries of stored keys, which begin with the key group."""
    heads = b"".join([key[: PREFIX_BYTES - 1] for key in keys])
    groups = np.frombuffer(heads, ">u2").astype(np.uint16)
    return Entries(state_id, groups, pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()))


def packed_entries(
    state_id: int, groups: npt.NDArray[np.uint16], keys: Any, fields: Sequence[pa.Field], columns: Sequence[pa.Array]
) -> Entries:
    """Return entries whose values are rows of columns.  keys: without key group and state."""
    values = large_binary(RowCodec(tuple(fields)).pack(columns))
    return Entries(state_id, groups, large_binary(stored_keys(groups, keys, state_id)), values)


def present_entries(state_id: int, groups: npt.NDArray[np.uint16], keys: Any) -> Entries:
    """Return entries that are only there."""
    values = pa.repeat(pa.scalar(_PRESENT, pa.large_binary()), len(groups))
    return Entries(state_id, groups, large_binary(stored_keys(groups, keys, state_id)), values)
