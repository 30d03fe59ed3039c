"""The rows of one side that may still find partners, in the state, by key and time.

stored key = key group | state id | key | time | columns of the side
value      = how many such rows there are, and whether they have had a partner
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import key_widths
from mixedmode.keys.rows import binary_rows, cut
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.row_columns import decoded_rows, encoded_rows
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, leading_times
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor
from mixedmode.state.arrow_bytes import ArrowBytes, large_binary, without
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

__all__ = ["SideRows", "StoredSide", "entries_of", "parts_of_entries", "rows_state", "stored_rows"]

_FIELDS = (pa.field("rows", pa.int64()), pa.field("matched", pa.int64()))
_CODEC = RowCodec(_FIELDS)


def rows_state(state_id: int, name: str) -> StateDescriptor:
    """Return the state of the rows of a side."""
    return StateDescriptor(state_id, name, _FIELDS, is_read_by_key=False)


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows of a side (n,), sorted by key and time: the number of each row's key, its time, the columns of the side.

    `is_new`: not from the state. `was_matched`: has had a partner in an earlier epoch. `is_fresh`: of the table that is
    processed, so none of its pairs is found yet. `partners`: how many were found in the tables before it.
    """

    codes: Int64s
    times_us: Int64s
    columns: list[pa.Array]
    is_new: Bools
    was_matched: Bools
    is_fresh: Bools
    partners: Int64s

    @classmethod
    def new(cls, codes: Int64s, times_us: Int64s, columns: list[pa.Array]) -> "SideRows":
        """Return rows of a table, which are sorted."""
        size = len(codes)
        return cls(codes, times_us, columns, _all(size), ~_all(size), _all(size), np.zeros(size, np.int64))

    @classmethod
    def stored(cls, codes: Int64s, times_us: Int64s, columns: list[pa.Array], was_matched: Bools) -> "SideRows":
        """Return rows of the state, which are sorted."""
        size = len(codes)
        return cls(codes, times_us, columns, ~_all(size), was_matched, ~_all(size), np.zeros(size, np.int64))

    def taken(self, rows: npt.NDArray[np.intp]) -> "SideRows":
        """Return some of the rows."""
        taken = pa.array(rows)
        return SideRows(
            self.codes[rows],
            self.times_us[rows],
            [column.take(taken) for column in self.columns],
            self.is_new[rows],
            self.was_matched[rows],
            self.is_fresh[rows],
            self.partners[rows],
        )

    def merged(self, other: "SideRows") -> "SideRows":
        """Return these rows and those of `other`, sorted."""
        if not len(other.codes):
            return self
        both = SideRows(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.times_us, other.times_us]),
            [pa.concat_arrays(pair) for pair in zip(self.columns, other.columns, strict=True)],
            np.concatenate([self.is_new, other.is_new]),
            np.concatenate([self.was_matched, other.was_matched]),
            np.concatenate([self.is_fresh, other.is_fresh]),
            np.concatenate([self.partners, other.partners]),
        )
        if not len(self.codes) or (self.codes[-1], self.times_us[-1]) <= (other.codes[0], other.times_us[0]):
            return both  # such as rows that are carried from the table before, and then its own
        return both.taken(np.lexsort((both.times_us, both.codes)))

    def before(self, end: int) -> "SideRows":
        """Return the rows [0, end), without a copy."""
        return SideRows(
            self.codes[:end],
            self.times_us[:end],
            [column.slice(0, end) for column in self.columns],
            self.is_new[:end],
            self.was_matched[:end],
            self.is_fresh[:end],
            self.partners[:end],
        )

    def carried(self, start: int, found: Int64s) -> "SideRows":
        """Return the rows from `start`, all of one key, for the next table.

        found: (n,) the partners that each row has found in this table.
        """
        own = self.taken(np.arange(start, len(self.codes)))
        size = len(own.codes)
        return replace(own, codes=np.zeros(size, np.int64), is_fresh=~_all(size), partners=own.partners + found[start:])


class StoredSide:
    """Reads and writes the rows of one side."""

    def __init__(self, layout: JoinLayout, side: int, state_id: int, backend: KeyedStateBackend) -> None:
        self._layout = layout
        self._fields = layout.sides[side]
        self._state_id = state_id
        self._backend = backend

    def read(self, groups: npt.NDArray[np.uint16], keys: pa.Array, bytes_max: int | None) -> SideRows | None:
        """Return the stored rows of `keys` (n,), sorted and distinct. Return None if they exceed `bytes_max`."""
        prefixes = list(stored_keys(groups, keys, self._state_id))
        found = self._backend.scan_prefixes(self._state_id, prefixes, bytes_max=bytes_max)
        if not found.is_whole:
            return None
        rows = stored_rows(self._layout, self._fields, found.keys, found.values)
        return SideRows.stored(found.prefix_of_row[rows.entries], rows.times_us, rows.columns, rows.was_matched)

    def write(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, rows: SideRows, matched: Bools, is_kept: Bools
    ) -> None:
        """Write the rows (n,) of these keys as they are after the epoch.

        matched: the rows that have had a partner so far. is_kept: the rows that may find one later; others are deleted.
        """
        is_changed = rows.is_new | (matched != rows.was_matched)
        looked_at = np.flatnonzero((is_changed & is_kept) | (~rows.is_new & ~is_kept))
        if not len(looked_at):
            return
        # equal rows have one entry, so those beside a changed row are written with it
        relevant = np.flatnonzero(np.isin(rows.codes, rows.codes[looked_at]))
        own = rows.taken(relevant)
        own_keys = keys.take(pa.array(own.codes))
        entries = entries_of(groups[own.codes], own_keys, own.times_us, own.columns, self._fields, self._state_id)
        self._write(entries, own, matched[relevant], is_kept[relevant], is_changed[relevant])

    def _write(self, entries: pa.Array, rows: SideRows, matched: Bools, is_kept: Bools, is_changed: Bools) -> None:
        encoded = entries.dictionary_encode()
        codes, distinct = encoded.indices.to_numpy(), encoded.dictionary
        size = len(distinct)
        counts = np.bincount(codes, minlength=size).astype(np.int64)  # equal rows are kept or deleted together
        kept = np.bincount(codes[is_kept], minlength=size) > 0
        was_stored = np.bincount(codes[~rows.is_new], minlength=size) > 0
        has_changed = np.bincount(codes[is_changed], minlength=size) > 0
        has_match = np.bincount(codes[matched], minlength=size) > 0
        order = pc.array_sort_indices(distinct).to_numpy()
        order = order[((kept & has_changed) | (~kept & was_stored))[order]]
        if not len(order):
            return
        values = _CODEC.pack([pa.array(counts[order]), pa.array(has_match[order].astype(np.int64))])
        written = without(values, np.flatnonzero(~kept[order]).tolist())
        self._backend.write(self._state_id, ArrowBytes(distinct.take(pa.array(order))), written)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of a side (n,): the stored entry of each row, its encoded key, its time, its columns."""

    entries: npt.NDArray[np.int64]
    keys: pa.LargeBinaryArray
    times_us: Int64s
    columns: list[pa.Array]
    was_matched: Bools


def stored_rows(
    layout: JoinLayout, fields: Sequence[pa.Field], keys: Sequence[bytes], values: Sequence[bytes]
) -> StoredRows:
    """Return the rows in stored entries; equal rows are one entry."""
    counts, matched = (column.to_numpy() for column in _CODEC.unpack(values))
    entries = np.repeat(np.arange(len(counts)), counts)
    parts = parts_of_entries(layout, fields, keys)
    taken = pa.array(entries)
    return StoredRows(
        entries,
        parts.keys.take(taken),
        parts.times_us[entries],
        [column.take(taken) for column in parts.columns],
        matched[entries].astype(np.bool_),
    )


def entries_of(
    groups: npt.NDArray[np.uint16],
    keys: pa.Array,
    times_us: Int64s,
    columns: Sequence[pa.Array],
    fields: Sequence[pa.Field],
    state_id: int,
) -> pa.LargeBinaryArray:
    """Return the stored keys of rows (n,) of a side: key group, state id, encoded key, time, columns."""
    parts = [keys, encoded_times(times_us), *([encoded_rows(columns, fields)] if fields else [])]
    wide = [part.cast(pa.large_binary()) for part in parts]
    packed = pc.binary_join_element_wise(*wide, pa.scalar(b"", pa.large_binary()))
    return large_binary(stored_keys(groups, packed, state_id))


@dataclass(frozen=True, slots=True)
class EntryParts:
    """The parts of stored keys (n,): the encoded key, the time, the columns of the side."""

    keys: pa.LargeBinaryArray
    times_us: Int64s
    columns: list[pa.Array]


def parts_of_entries(layout: JoinLayout, fields: Sequence[pa.Field], entries: Sequence[bytes]) -> EntryParts:
    """Return the parts of stored keys that `entries_of` has made."""
    stored = pa.array(entries, pa.large_binary())
    if not len(stored):
        return EntryParts(stored, np.zeros(0, np.int64), decoded_rows(stored, fields))
    rows = binary_rows(stored)
    key_ends = rows.starts + PREFIX_BYTES + key_widths(stored, layout.key_schema, after=PREFIX_BYTES)
    return EntryParts(
        cut(rows.data, rows.starts + PREFIX_BYTES, key_ends),
        leading_times(cut(rows.data, key_ends, key_ends + TIME_BYTES)),
        decoded_rows(cut(rows.data, key_ends + TIME_BYTES, rows.ends), fields),
    )


def _all(size: int) -> Bools:
    return np.ones(size, np.bool_)
