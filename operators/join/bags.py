"""The rows of one side of a join without a bound in time: as bags, in which equal rows are one row with a count.

    stored key = key group | side | packed row (key, columns of the side), value = number of such rows

A bag in memory may hold one row in several entries; their counts add up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InternalError
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN
from mixedmode.operators.join.counts import counts_of
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.top.rows import cut, decoded_rows, encoded_rows, joined_with_lengths, parts_of, without_prefix
from mixedmode.sort import sort_order
from mixedmode.state import KeyedStateBackend, StateDescriptor, StateTable
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

__all__ = ["Bag", "Changed", "StoredBag", "TouchedKeys", "bag_rows", "packed_rows"]

Groups = npt.NDArray[np.uint16]


def bag_rows(layout: JoinLayout, side: int, packed: pa.LargeBinaryArray) -> list[pa.Array]:
    """Return the columns of a side of packed rows (n,)."""
    parts = parts_of(packed)
    return decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), layout.sides[side])


def packed_rows(layout: JoinLayout, side: int, keys: pa.Array, columns: Sequence[pa.Array]) -> pa.LargeBinaryArray:
    """Return packed rows (n,) of a side from their encoded keys and columns."""
    fields = layout.sides[side]
    return joined_with_lengths(keys, [], [encoded_rows(columns, fields)] if fields else [])


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

    @classmethod
    def added(cls, columns: Sequence[pa.Array], counts: Int64s) -> "Bag":
        """Return rows of one key, all of them added in this epoch."""
        none = np.zeros(len(counts), np.int64)
        return cls(none, none, counts, np.arange(len(counts)), columns)

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
class Changed:
    """The rows (n,) of a side that an epoch changes, each once, in the order of the state.

    `packed`: the row of each. `stored`: the stored keys of those with a key without NULL, whose numbers are `kept`.
    """

    bag: Bag
    packed: pa.LargeBinaryArray
    kept: Int64s
    stored: Sequence[bytes]


class StoredBag:
    """The rows of one side in the state of a subtask."""

    def __init__(self, layout: JoinLayout, side: int, descriptor: StateDescriptor, backend: KeyedStateBackend) -> None:
        self._layout = layout
        self._side = side
        self._backend = backend
        self._state = StateTable(descriptor, backend)

    def changed(self, keys: TouchedKeys, codes: Int64s, weights: Int64s, columns: Sequence[pa.Array]) -> Changed:
        """Return what the rows (n,) of an epoch change. Raise InternalError if a row is retracted that is not there."""
        packed = packed_rows(self._layout, self._side, keys.encoded.take(pa.array(codes)), columns)
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
        _check_there(bag.after[kept])
        return Changed(bag, packed, kept, stored)

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
        change = np.zeros(len(counts), np.int64)
        known = np.flatnonzero(bag.before)
        at = pc.index_in(packed.take(pa.array(known)), value_set=stored)
        is_found = at.is_valid().to_numpy(zero_copy_only=False)
        change[at.drop_null().to_numpy()] = bag.change[known[is_found]]
        rest = np.ones(len(bag.codes), np.bool_)
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

    def written(
        self, group: int, blocks: Iterable[tuple[pa.LargeBinaryArray, Int64s]]
    ) -> Iterator[tuple[pa.LargeBinaryArray, Int64s]]:
        """Write the first rows of a key: packed rows, in order, and their numbers. Yield each block when it is written.

        Raise InternalError if a row is retracted that is not there.
        """
        for packed, counts in blocks:
            _check_there(counts)
            stored = self._state.stored_keys(np.full(len(counts), group, np.uint16), packed)
            self._state.write(stored, [pa.array(counts)], [])
            yield packed, counts

    def write(self, changed: Changed) -> None:
        """Write the new counts of the changed rows."""
        counts = changed.bag.after[changed.kept]
        self._state.write(changed.stored, [pa.array(counts)], np.flatnonzero(counts == 0).tolist())


def _of(packed: pa.LargeBinaryArray, ascending: npt.NDArray[np.intp]) -> pa.LargeBinaryArray:
    """Return rows by their ascending numbers, without a copy if they are all rows."""
    return packed if len(ascending) == len(packed) else packed.take(pa.array(ascending))


def _check_there(counts: Int64s) -> None:
    if (counts < 0).any():
        msg = (
            "a row was retracted that its side of the join never had. This is a defect; report it. "
            f"rows_affected={int((counts < 0).sum())}"
        )
        raise InternalError(msg)
