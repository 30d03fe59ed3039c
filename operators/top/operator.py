"""The operator of a `top` step: the best n rows of each key, as one row per key and rank.

Rows are packed into bytes whose order is the step's order (rows.py), and a packed row is the key in the sorter and in
the state. So the sorter delivers the rows of a key in the order of their ranks, and the first n stored rows of a key
are its best. Rows that are equal in the order columns are ordered by all their columns, so the result depends neither
on the order of arrival nor on the mode. Equal rows are one row with a weight, and occupy as many ranks.

Append-only input: the state holds the best n rows of a key, because no other row can come back. The sorter and
`process` drop rows beyond the best n early, so a key with many rows takes the memory of n. The map side drops most of
them, too (candidates.py).

Changelog: the state holds every row of a key with its weight, because a retraction lets a row move up. An epoch reads
at most n rows of a key and one more per retracted row, whatever the number of stored rows. The changed rows of one key
and one epoch are held in memory.

State layout: stored key = key group | 0 | packed row, value = weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.stored import StoredTable
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    WEIGHT_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.candidates import candidates
from mixedmode.operators.top.fold import packed_table, pruned, whole_keys
from mixedmode.operators.top.ranks import best_of, places_of
from mixedmode.operators.top.rows import RowLayout, keys_of, taken, without_prefix
from mixedmode.sort import Combine, sort_order, sort_table
from mixedmode.state import KeyedStateBackend, RowCodec, StateDescriptor, StateRange, StateTable
from mixedmode.state.keys import PREFIX_BYTES, stored_keys

RANK = pa.field("rank", pa.int32())
_WEIGHT = pa.field("weight", pa.int64())
_STATE_ID = 0
Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class TopOperator(OperatorBase):
    """Keep the best `n` rows of each key. Output: key, rank, other columns; without rank if not `has_rank`.

    The arguments of a batch are the columns of the row, and those that the order needs besides: `order_arguments` has
    the index of each order column among the arguments; the first arguments are the columns of the row.
    """

    layout: RowLayout
    order_arguments: tuple[int, ...]
    n: int
    is_changelog: bool
    has_rank: bool = True
    emits_retractions: bool = False
    emits_full_snapshot: bool = False

    traits = OperatorTraits(emits=Changelog.RETRACT, can_emit_full_snapshot=True, state_uses_time=False)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of the keys, in the order of their ranks."""
        return (StateDescriptor(_STATE_ID, "rows", (_WEIGHT,), is_read_by_key=self.is_changelog),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The weight of a row; the row itself is the sorter's key."""
        return (pa.field(WEIGHT_COLUMN, pa.int64()),)

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns, and the rank."""
        return (*self.layout.key_schema.fields, *([RANK] if self.has_rank else []))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, the rank, and the other columns of the input."""
        return (*self.output_key, *self.layout.row_fields)

    @property
    def combine(self) -> Combine | None:
        """The function that adds up the weights of equal rows; of append-only input, it keeps the best n of a key."""
        return self._combined

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the packed rows of a batch; of append-only input, those that may be among the best n of their key."""
        del late_us  # the best rows of a key are never final, so no row is late
        keys, columns = list(batch.keys), list(batch.arguments)
        weights = np.ones(len(keys[0]), np.int64) if batch.weights is None else batch.weights
        drops_rows = not self.is_changelog
        if drops_rows and self.order_arguments:
            found = candidates(keys, columns[self.order_arguments[0]], self.layout.order[0], self.n)
            drops_rows = found.has_more
            if found.rows is not None:
                weights, numbers = weights[found.rows], pa.array(found.rows)
                keys, columns = [k.take(numbers) for k in keys], [c.take(numbers) for c in columns]
        order = [columns[index] for index in self.order_arguments]
        row = columns[: len(self.layout.row_fields)]
        table = packed_table(self.layout, keys, order, row, max_parallelism=max_parallelism)
        table = table.append_column(WEIGHT_COLUMN, pa.array(weights))
        return Folded(self._combined(sort_table(table)) if drops_rows else table)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Merge sorted rows with the stored rows of their keys. Yield the changed ranks, and write the changed rows."""
        backend = context.backend
        stored = StoredTable(backend, _STATE_ID, context.groups) if self.emits_full_snapshot else None
        for table in whole_keys(tables, (lambda held: held) if self.is_changelog else self._combined):
            yield from self._process(table, backend, stored)
        if stored is not None:
            yield from self.stored_rows(stored.rest())

    def _combined(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        grouping, first_rows = segments(column_of(table, KEY_COLUMN))
        if grouping.size < table.num_rows:
            weights = np.add.reduceat(column_of(table, WEIGHT_COLUMN).to_numpy(), first_rows)
            kept = table.select([KEY_GROUP_COLUMN, KEY_COLUMN]).take(pa.array(first_rows))
            table = kept.append_column(WEIGHT_COLUMN, pa.array(weights)).combine_chunks()
        return table if self.is_changelog else pruned(table, self.n)

    def _process(
        self, table: pa.Table, backend: KeyedStateBackend, stored: StoredTable | None
    ) -> Iterator[KeyedChanges]:
        packed, weights = column_of(table, KEY_COLUMN), column_of(table, WEIGHT_COLUMN).to_numpy()
        keys = keys_of(packed)
        grouping, first_rows = segments(keys)
        codes, keys = grouping.codes.astype(np.int64), taken(keys, first_rows)
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        prefixes = stored_keys(groups[first_rows], keys, _STATE_ID)
        if stored is not None:
            yield from self.stored_rows(stored.before(prefixes))
        # A retracted row may leave the best n, so one more stored row per retracted row may be among the new best n.
        retracted = np.bincount(codes[weights < 0], minlength=len(prefixes))
        found = backend.scan_prefixes(_STATE_ID, prefixes, limits=(self.n + retracted).tolist())
        held = _Rows(
            found.prefix_of_row,
            without_prefix(found.keys, PREFIX_BYTES),
            _weights(found.values),
            np.zeros(len(found.keys), np.int64),
        )
        before = (
            self._stored_weights(groups, packed, backend) if self.is_changelog else np.zeros(len(weights), np.int64)
        )
        rows = _merged(held, _Rows(codes, packed, before, weights), groups[first_rows])
        yield self._changes(rows, keys)
        self._write(rows, groups[first_rows], backend)

    def _stored_weights(self, groups: Groups, packed: pa.Array, backend: KeyedStateBackend) -> Int64s:
        """Return the stored weight (n,) of each row, 0 if it is not stored."""
        state = StateTable(self.states[0], backend)
        found, columns = state.read(state.stored_keys(groups, packed))
        weights = np.zeros(len(packed), np.int64)
        weights[found] = columns[0].to_numpy()
        return weights

    def _changes(self, rows: "_Rows", encoded: pa.LargeBinaryArray) -> KeyedChanges:
        """Return the ranks that another row has now; with a full snapshot, every rank, as an insert.

        encoded: the key (k,) of each code.
        """
        old = best_of(rows.codes, rows.before, self.n)
        new = best_of(rows.codes, rows.after, self.n)
        places = places_of(rows.codes, len(encoded), old, new)
        places = places.where(places.new >= 0 if self.emits_full_snapshot else places.old != places.new)
        existed, exists = places.old >= 0, places.new >= 0
        previous = taken(rows.packed, places.old[existed]) if self.emits_retractions else None
        keys = [column.take(pa.array(places.codes)) for column in decode_keys(encoded, self.layout.key_schema)]
        ranks = [pa.array(places.ranks.astype(np.int32))] if self.has_rank else []
        changes = KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=[*keys, *ranks],
            existed=existed,
            exists=exists,
            results=self.layout.unpack_rows(taken(rows.packed, np.where(exists, places.new, places.old))),
            previous=None if previous is None else self.layout.unpack_rows(previous),
        )
        return changes.as_new() if self.emits_full_snapshot else changes

    def _write(self, rows: "_Rows", groups: Groups, backend: KeyedStateBackend) -> None:
        """Write the weights that have changed; of append-only input, only those of the best n."""
        before, after = rows.before, rows.after
        if not self.is_changelog:
            after = best_of(rows.codes, after, self.n)
        touched = np.flatnonzero(before != after)
        state = StateTable(self.states[0], backend)
        keys = state.stored_keys(groups[rows.codes[touched]], taken(rows.packed, touched))
        kept = after[touched]
        state.write(keys, [pa.array(kept)], deleted=np.flatnonzero(kept == 0).tolist())

    def stored_rows(self, ranges: Iterator[StateRange]) -> Iterator[KeyedChanges]:
        """Yield the best rows of the stored keys of `ranges` as inserts."""
        for found in ranges:
            packed = without_prefix(found.keys, PREFIX_BYTES)
            keys = keys_of(packed)
            grouping, first_rows = segments(keys)
            weights = _weights(found.values)
            rows = _Rows(grouping.codes.astype(np.int64), packed, np.zeros_like(weights), weights)
            yield self._changes(rows, taken(keys, first_rows))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Distinct rows of the keys of a table, in the order of key and rank, (n,) each.

    `codes`: index of the key. `before`: the weight before the epoch. `change`: how the epoch changes it.
    """

    codes: Int64s
    packed: pa.LargeBinaryArray
    before: Int64s
    change: Int64s

    @property
    def after(self) -> Int64s:
        return self.before + self.change


def _merged(stored: _Rows, changed: _Rows, groups: Groups) -> _Rows:
    """Return the rows of both, each once. A row that is in both has the same weight before, or 0 in `changed`.

    groups: the key group (k,) of each key.  Raises InvalidJobError if a row is retracted that is not there.
    """
    codes = np.concatenate([stored.codes, changed.codes])
    packed, order = changed.packed, np.arange(len(codes))  # the changed rows are sorted
    if len(stored.codes):
        packed = pa.concat_arrays([stored.packed, changed.packed])
        order = sort_order(pa.table([pa.array(groups[codes]), packed], names=[KEY_GROUP_COLUMN, KEY_COLUMN]))
        packed = packed.take(pa.array(order))
    _, first_rows = segments(packed)
    before = np.maximum.reduceat(np.concatenate([stored.before, changed.before])[order], first_rows)
    change = np.add.reduceat(np.concatenate([stored.change, changed.change])[order], first_rows)
    rows = _Rows(codes[order][first_rows], taken(packed, first_rows), before, change)
    check_inserted(rows.after)
    return rows


def _weights(values: Sequence[bytes]) -> Int64s:
    weights: Int64s = RowCodec((_WEIGHT,)).unpack(values)[0].to_numpy()
    return weights
