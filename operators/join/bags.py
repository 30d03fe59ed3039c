"""The rows of one side of a join without a bound in time, as bags: a row counts as often as it is there.

    stored key = key group | side | packed row (key, columns of the side), value = number of such rows

Equal rows are one stored row with a count in two cases: if rows may be retracted, as a retraction has to find its row;
and if no column of the side is read, as all rows of a key are then equal. Otherwise each row that arrives is stored by
itself, and nothing is looked up. It then has a number as the order column of the packed row:

    key | epoch u32 | number in the epoch u64 | columns of the side

So the rows of a sorted table are in the order of the state as they come. A bag in memory may hold one row in several
entries, too; their counts add up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN
from mixedmode.operators.join.counts import counts_of
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.row_columns import decoded_rows, row_pieces
from mixedmode.operators.top.rows import joined_with_lengths, parts_of, with_lengths, without_prefix
from mixedmode.sort import sort_order
from mixedmode.state import KeyedStateBackend, StateDescriptor, StateTable
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.keys import PREFIX_BYTES, after_prefix, joined_keys, stored_keys

__all__ = ["ALL_ROWS", "Arrivals", "Bag", "Changed", "SideRows", "StoredBag", "TouchedKeys", "bag_rows"]

#: a limit of rows that is none
ALL_ROWS = np.iinfo(np.int64).max

Groups = npt.NDArray[np.uint16]
_ARRIVAL = np.dtype([("epoch", ">u4"), ("number", ">u8")])


def bag_rows(layout: JoinLayout, side: int, packed: pa.LargeBinaryArray) -> list[pa.Array]:
    """Return the columns of a side of packed rows (n,)."""
    parts = parts_of(packed)
    return decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), layout.sides[side])


class Arrivals:
    """Numbers the rows that a subtask adds in an epoch. No other epoch and no other row of it has the same number."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._next = 0

    def of_next(self, size: int) -> pa.FixedSizeBinaryArray:
        """Return the numbers of the next rows, in order, as bytes (size,)."""
        numbers = np.empty(size, _ARRIVAL)
        numbers["epoch"] = self._epoch
        numbers["number"] = np.arange(self._next, self._next + size)
        self._next += size
        return FixedBytes(numbers.view(np.uint8).reshape(size, _ARRIVAL.itemsize)).fixed_size_binary()


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """The keys of a sorted table (k,): key group, encoded key. `is_null`: a column of the key is NULL."""

    groups: Groups
    encoded: pa.Array
    is_null: Bools

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, slots=True)
class Bag:
    """Rows of one side, (n,) each, in the order of their keys.

    `codes`: the number of the key. `before`: how many such rows there were before the epoch. `change`: how many the
    epoch adds. `rows`: the row's number in `columns`.
    """

    codes: Int64s
    before: Int64s
    change: Int64s
    rows: Int64s
    columns: Sequence[pa.Array]

    @property
    def after(self) -> Int64s:
        """The number of such rows after the epoch."""
        return self.before + self.change

    def has_change(self, keys: int) -> Bools:
        """Return (keys,) True for the keys of which a row changes."""
        return np.bincount(self.codes[self.change != 0], minlength=keys) > 0

    def is_there(self, keys: int) -> tuple[Bools, Bools]:
        """Return (keys,) which keys have a row before, and after the epoch."""
        before, after = (np.bincount(self.codes[counts > 0], minlength=keys) for counts in (self.before, self.after))
        return before > 0, after > 0


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows (n,) of one side of one key: packed, with how many such rows there were, and how many the epoch adds."""

    packed: pa.LargeBinaryArray
    before: Int64s
    change: Int64s

    @classmethod
    def changed(cls, packed: pa.LargeBinaryArray, change: Int64s) -> "SideRows":
        """Return rows of which it is not known yet how many there were."""
        return cls(packed, np.zeros(len(change), np.int64), change)

    @property
    def has_change(self) -> bool:
        """Return whether the epoch changes any of them."""
        return bool(self.change.any())


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows (n,) of a side that an epoch changes, each once, in the order of the state.

    `stored`: the stored keys of those with a key without NULL, whose numbers are `kept`. `packed`: the row of each;
    None if each is stored by itself, so that none is in the state before.
    """

    bag: Bag
    packed: pa.LargeBinaryArray | None
    kept: Int64s
    stored: Sequence[bytes]


class StoredBag:
    """The rows of one side in the state of a subtask. `arrivals`: numbers the rows; None: equal ones are counted."""

    def __init__(
        self,
        layout: JoinLayout,
        side: int,
        descriptor: StateDescriptor,
        backend: KeyedStateBackend,
        arrivals: Arrivals | None,
    ) -> None:
        self._layout = layout
        self._side = side
        self._backend = backend
        self._state = StateTable(descriptor, backend)
        self._arrivals = arrivals

    def packed(self, keys: pa.Array, columns: Sequence[pa.Array]) -> pa.LargeBinaryArray:
        """Return packed rows (n,) from their encoded keys and columns."""
        return joined_with_lengths(keys, self._next_arrivals(len(keys)), self._pieces(columns))

    def changed(self, keys: TouchedKeys, codes: Int64s, weights: Int64s, columns: Sequence[pa.Array]) -> Changed:
        """Return what the rows (n,) of an epoch change, which are sorted by key.

        Raise InvalidJobError if a row is retracted that is not there.
        """
        if self._arrivals is not None:
            return self._added(keys, codes, weights, columns)
        packed = self.packed(keys.encoded.take(pa.array(codes)), columns)
        groups = keys.groups[codes]
        order = sort_order(pa.table([pa.array(groups), packed], names=[KEY_GROUP_COLUMN, KEY_COLUMN]))
        packed = packed.take(pa.array(order))
        _, first_rows = segments(packed)
        change = np.add.reduceat(weights[order], first_rows) if len(order) else weights
        kept = np.flatnonzero(change)
        rows, packed, change = order[first_rows[kept]], _of(packed, first_rows[kept]), change[kept]
        kept = np.flatnonzero(~keys.is_null[codes[rows]])
        stored = self._state.stored_keys(groups[rows[kept]], _of(packed, kept))
        before = np.zeros(len(change), np.int64)
        found, counts = self._state.read(stored)
        before[kept[found]] = counts[0].to_numpy()
        bag = Bag(codes[rows], before, change, rows, columns)
        check_inserted(bag.after[kept])
        return Changed(bag, packed, kept, stored)

    def _added(self, keys: TouchedKeys, codes: Int64s, weights: Int64s, columns: Sequence[pa.Array]) -> Changed:
        """Return what rows (n,) change of which each is stored by itself."""
        bag = Bag(codes, np.zeros(len(codes), np.int64), weights, np.arange(len(codes)), columns)
        kept = np.flatnonzero(~keys.is_null[codes])
        if len(kept) < len(codes):
            taken = pa.array(kept)
            codes, columns = codes[kept], [column.take(taken) for column in columns]
        encoded = keys.encoded.take(pa.array(codes))
        parts = with_lengths(encoded, self._next_arrivals(len(kept)), self._pieces(columns))
        return Changed(bag, None, kept, joined_keys(keys.groups[codes], parts, self._side))

    def _next_arrivals(self, size: int) -> list[pa.Array]:
        """Return the order columns of the next packed rows."""
        return [] if self._arrivals is None else [self._arrivals.of_next(size)]

    def _pieces(self, columns: Sequence[pa.Array]) -> list[Any]:
        return row_pieces(columns, self._layout.sides[self._side])

    def with_stored(
        self,
        keys: TouchedKeys,
        changed: Changed,
        is_wanted: Bools,
        limits: Int64s | None = None,
        *,
        bytes_max: int | None,
    ) -> Bag | None:
        """Return the changed rows, and the stored rows of the wanted keys. Return None if they exceed `bytes_max`.

        is_wanted: (k,). limits: (k,) the most stored rows of each key; None: all of them.
        """
        wanted = np.flatnonzero(is_wanted & ~keys.is_null)
        prefixes = stored_keys(keys.groups[wanted], keys.encoded.take(pa.array(wanted)), self._side)
        most = None if limits is None else limits[wanted].tolist()
        found = self._backend.scan_prefixes(self._side, prefixes, most, bytes_max)
        if not found.is_whole:
            return None
        bag, packed = changed.bag, changed.packed
        if not found.keys:
            return bag
        stored = without_prefix(found.keys, PREFIX_BYTES)
        counts = counts_of(found.values)
        change, rest = np.zeros(len(counts), np.int64), np.ones(len(bag.codes), np.bool_)
        if packed is not None:
            known = np.flatnonzero(bag.before)
            at = pc.index_in(packed.take(pa.array(known)), value_set=stored)
            is_found = at.is_valid().to_numpy(zero_copy_only=False)
            change[at.drop_null().to_numpy()] = bag.change[known[is_found]]
            rest[known[is_found]] = False
        size = len(bag.columns[0]) if bag.columns else 0
        columns = bag_rows(self._layout, self._side, stored)
        codes = np.concatenate([bag.codes[rest], wanted[found.prefix_of_row]])
        order = np.argsort(codes, kind="stable")
        return Bag(
            codes[order],
            np.concatenate([bag.before[rest], counts])[order],
            np.concatenate([bag.change[rest], change])[order],
            np.concatenate([bag.rows[rest], size + np.arange(len(counts))])[order],
            [pa.concat_arrays(pair) for pair in zip(bag.columns, columns, strict=True)],
        )

    def rows_of(self, group: int, key: pa.Array, limit: int, *, bytes_max: int) -> Iterator[SideRows]:
        """Yield the stored rows of a key (1,), at most `limit`, in order and in blocks of about `bytes_max`."""
        (start,) = stored_keys(np.full(1, group, np.uint16), key, self._side)
        end = after_prefix(start)
        while limit:
            found = self._backend.scan(self._side, start, end, bytes_max)
            if not found.keys:
                return
            counts = counts_of(found.values)[:limit]
            packed = without_prefix(found.keys, PREFIX_BYTES)[: len(counts)]
            yield SideRows(packed, counts, np.zeros(len(counts), np.int64))
            limit -= len(counts)
            if found.is_whole:
                return
            start = found.keys[-1] + b"\0"

    def updated(self, group: int, blocks: Iterable[SideRows], *, is_known: bool) -> Iterator[SideRows]:
        """Write the new numbers of the changed rows of a key. Yield each block when that is done.

        is_known: `before` is right; else it is read for the changed rows, if they can be there already. Raise
        InvalidJobError if a row is retracted that is not there.
        """
        is_known = is_known or self._arrivals is not None or self._backend.starts_empty
        for rows in blocks:
            changed = np.flatnonzero(rows.change)
            stored = self._state.stored_keys(np.full(len(changed), group, np.uint16), _of(rows.packed, changed))
            before = rows.before.copy()
            if not is_known:
                before[changed] = 0
                found, counts = self._state.read(stored)
                before[changed[found]] = counts[0].to_numpy()
            after = before[changed] + rows.change[changed]
            check_inserted(after)
            if not self._backend.drops_writes:
                self._state.write(stored, [pa.array(after)], np.flatnonzero(after == 0).tolist())
            yield replace(rows, before=before)

    def write(self, changed: Changed) -> None:
        """Write the new counts of the changed rows."""
        counts = changed.bag.after[changed.kept]
        self._state.write(changed.stored, [pa.array(counts)], np.flatnonzero(counts == 0).tolist())


def _of(packed: pa.LargeBinaryArray, ascending: npt.NDArray[np.intp]) -> pa.LargeBinaryArray:
    """Return rows by their ascending numbers, without a copy if they are all rows."""
    return packed if len(ascending) == len(packed) else packed.take(pa.array(ascending))
