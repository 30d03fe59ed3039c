"""A state whose stored keys begin with a time, written by an operator that goes through its keys in key order.

The due entries of a key group are deleted, and its new entries are written, when the next key group begins. A due time
is before the watermark and a new one is not, so the deleted keys sort before the new ones.

    stored key = key group | state id | time | rest, value = version u8
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.window.keys import time_range
from mixedmode.state import KeyedStateBackend
from mixedmode.state.keys import stored_keys

_STORED = b"\x01"


class TimesWriter:
    """Deletes the entries whose time is in `due`, (after, up to], in each key group that is seen; writes new ones."""

    def __init__(self, backend: KeyedStateBackend, state_id: int, due: tuple[int, int]) -> None:
        self._backend = backend
        self._state_id = state_id
        self._due = due
        self._group: int | None = None
        self._new = list[bytes]()  #: stored keys of the current key group, in no order

    def write(self, seen: npt.NDArray[np.uint16], groups: npt.NDArray[np.uint16], entries: pa.Array) -> None:
        """Add new entries (m,), with the key group of each, ascending.

        seen: (n,) all key groups of a table, ascending. The key groups of later calls are not less than those of this
        one.
        """
        new = list(stored_keys(groups, entries, self._state_id))
        for group in _distinct(seen).tolist():
            if group != self._group:
                self.finish()
                self._group = group
            start, end = np.searchsorted(groups, [group, group + 1]).tolist()
            self._new += new[start:end]

    def finish(self) -> None:
        """Write the entries of the current key group."""
        if self._group is None:
            return
        after_us, up_to_us = self._due
        due: Sequence[bytes] = ()
        if after_us < up_to_us:
            due = self._backend.scan(self._state_id, *time_range(self._group, self._state_id, after_us, up_to_us)).keys
        keys, values = self._entries(self._new)
        if due or keys:
            self._backend.write(self._state_id, [*due, *keys], [*([None] * len(due)), *values])
        self._group, self._new = None, []

    def _entries(self, new: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the stored keys of new entries, each once and strictly ascending, and their values."""
        keys = sorted(set(new))
        return keys, [_STORED] * len(keys)


def _distinct(ascending: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    is_first = np.ones(len(ascending), np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    return ascending[is_first]
