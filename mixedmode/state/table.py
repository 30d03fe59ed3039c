"""State as columns with one row per key, over any backend. Vectorised operators read and write it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.state.arrow_bytes import present, without, without_none
from mixedmode.state.backend import KeyedStateBackend
from mixedmode.state.codec import RowCodec
from mixedmode.state.descriptor import StateDescriptor
from mixedmode.state.keys import stored_keys


class StateTable:
    """Reads and writes the state `descriptor` for many keys at a time."""

    def __init__(self, descriptor: StateDescriptor, backend: KeyedStateBackend) -> None:
        self._descriptor = descriptor
        self._backend = backend
        self._codec = RowCodec(descriptor.fields)

    def stored_keys(self, key_groups: npt.NDArray[np.uint16], keys: pa.Array) -> Sequence[bytes]:
        """Return the stored keys of this state for sorted, distinct `keys` (n,)."""
        return stored_keys(key_groups, keys, self._descriptor.state_id)

    def read(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.intp], list[pa.Array]]:
        """Return the rows that exist: (m,) ascending positions in `keys`, and their columns of (m,) each."""
        values = self._backend.read(self._descriptor.state_id, keys)
        return present(values), self._codec.unpack(without_none(values))

    def write(self, keys: Sequence[bytes], columns: Sequence[pa.Array], deleted: Sequence[int] = ()) -> None:
        """Write rows for strictly increasing stored `keys`; delete the keys at the positions in `deleted` instead."""
        values = self._codec.pack(columns)
        written = without(values, deleted) if len(deleted) else values
        self._backend.write(self._descriptor.state_id, keys, written)
