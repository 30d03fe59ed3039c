"""The rows of one side whose session has not ended, in the state, by key and time.

stored key = key group | side | key | time | columns of the side
value      = how many such rows there are
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.join.counts import counts_of, values_of
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.join.stored import entries_of, parts_of_entries
from mixedmode.state import KeyedStateBackend
from mixedmode.state.keys import stored_keys

__all__ = ["FoundRows", "SessionRows"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of the state (n,): the number of the key, the time, the columns. Equal rows have one entry, (m,)."""

    entries: Sequence[bytes]
    entry_of_row: Int64s
    codes: Int64s
    times_us: Int64s
    columns: list[pa.Array]


class SessionRows:
    """Reads and writes the waiting rows of one side."""

    def __init__(self, layout: JoinLayout, side: int, backend: KeyedStateBackend) -> None:
        self._layout = layout
        self._fields = layout.sides[side]
        self._state_id = side
        self._backend = backend

    def read(self, groups: npt.NDArray[np.uint16], keys: pa.Array) -> FoundRows:
        """Return the rows of `keys` (k,), which are sorted and distinct."""
        prefixes = list(stored_keys(groups, keys, self._state_id))
        found = self._backend.scan_prefixes(self._state_id, prefixes)
        parts = parts_of_entries(self._layout, self._fields, found.keys)
        entries = np.repeat(np.arange(len(found.keys)), counts_of(found.values))
        columns = [column.take(pa.array(entries)) for column in parts.columns]
        return FoundRows(found.keys, entries, found.prefix_of_row[entries], parts.times_us[entries], columns)

    def write(
        self,
        gone: Sequence[bytes],
        groups: npt.NDArray[np.uint16],
        keys: pa.Array,
        times_us: Int64s,
        columns: Sequence[pa.Array],
    ) -> None:
        """Delete the entries `gone`, and add rows (n,), none of which is equal to one of them.

        The keys of later calls are greater than those of this one.
        """
        if self._backend.drops_writes:
            return
        new = Counter(entries_of(groups, keys, times_us, columns, self._fields, self._state_id).to_pylist())
        names = sorted(new)
        counts = np.fromiter((new[name] for name in names), np.int64, len(names))
        if not self._backend.starts_empty:
            known = self._backend.read(self._state_id, names)
            stored = np.flatnonzero([value is not None for value in known])
            counts[stored] += counts_of([value for value in known if value is not None])
        values: dict[bytes, bytes | None] = dict(zip(names, values_of(counts), strict=True))
        values.update(dict.fromkeys(gone))
        if values:
            written = sorted(values)
            self._backend.write(self._state_id, written, [values[name] for name in written])
