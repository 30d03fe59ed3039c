"""The keyed aggregate: it merges the partial aggregates of an epoch with the stored state of their keys.

The same code runs in the backlog and in live epochs; the backend decides which state can be read. Each batch costs one
read, one vectorised merge and one write.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys, group_codes, slots_of
from mixedmode.operators.aggregate.aggregator import Aggregator
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Rows
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.stored import StoredTable
from mixedmode.operators.aggregate.values import Argument
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    TIME_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.tables import column_of, keyed_table
from mixedmode.sort import Combine
from mixedmode.state import RowCodec, StateDescriptor, StateRange, StateTable
from mixedmode.state.arrow_bytes import values_at
from mixedmode.state.keys import PREFIX_BYTES, cut_keys

_NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class AggregateOperator(OperatorBase):
    """Aggregate by key. The state is one row of registers per key.

    `emits_retractions`: previous results are computed, because another keyed step is downstream.
    `emits_running_results`: the operator emits one result per record, in event-time order, instead of one per key.
    `emits_full_snapshot`: the operator emits all stored keys as inserts, even those without a record (stored.py).
    """

    aggregator: Aggregator
    key_schema: KeySchema
    is_changelog: bool
    emits_retractions: bool
    emits_running_results: bool = False
    emits_full_snapshot: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """Results of a changelog are never running: a retraction is no new record."""
        return OperatorTraits(
            emits=Changelog.RETRACT,
            can_emit_running_results=not self.is_changelog,
            can_emit_full_snapshot=True,
            state_uses_time=self.aggregator.goes_by_time,
            folds_in_subtask=True,
        )

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The operator's only state."""
        return (StateDescriptor(0, "aggregate", self.aggregator.state_fields),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The partial aggregates: the input columns other than key group, key and time."""
        return self.aggregator.state_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns."""
        return self.key_schema.fields

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, then the results."""
        return (*self.key_schema.fields, *self.aggregator.result_fields)

    @property
    def combine(self) -> Combine | None:
        """The function that merges partials of a key in the sorter; None if every record needs its own result."""
        return None if self.emits_running_results else self._combined

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return one partial per distinct key of the batch; with running results, one per record, with event time."""
        del late_us  # an aggregate without a window has no end to be late for
        rows = Rows({i: Argument(column) for i, column in enumerate(batch.arguments)}, batch.times_us)
        keys, partials = self._partials(batch, rows)
        table = keyed_table(keys, self.key_schema, partials, self.input_fields, max_parallelism=max_parallelism)
        if self.emits_running_results and batch.times_us is not None:
            table = table.append_column(TIME_COLUMN, pa.array(batch.times_us))
        return Folded(table)

    def _partials(self, batch: Batch, rows: Rows) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return key columns and one partial per key; with running results, one per record."""
        if self.emits_running_results:
            n = len(batch.keys[0])
            return batch.keys, self.aggregator.partials(Grouping(np.arange(n), n, batch.weights), rows)
        slots = slots_of(batch.keys[0]) if len(batch.keys) == 1 else None
        if slots is not None:
            of_slots = self.aggregator.partials(Grouping(slots.codes, len(slots.keys), batch.weights), rows)
            taken = pa.array(slots.is_taken)
            return [slots.keys.filter(taken)], [column.filter(taken) for column in of_slots]
        groups = group_codes(batch.keys)
        first = pa.array(groups.first_row)
        partials = self.aggregator.partials(Grouping(groups.codes, len(first), batch.weights), rows)
        return [key.take(first) for key in batch.keys], partials

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Merge sorted partials with the stored state. Yield the changes, and write the new state."""
        state = StateTable(self.states[0], context.backend)
        stored = (
            StoredTable(context.backend, self.states[0].state_id, context.groups) if self.emits_full_snapshot else None
        )
        for table in tables:
            if table.num_rows:
                yield from self._process(table.combine_chunks(), state, stored)
        if stored is not None:
            yield from self.stored_rows(stored.rest())

    def _process(self, table: pa.Table, state: StateTable, stored: StoredTable | None) -> Iterator[KeyedChanges]:
        grouping, first_rows = segments(column_of(table, KEY_COLUMN))
        first = pa.array(first_rows)
        keys = column_of(table, KEY_COLUMN).take(first)
        stored_keys = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy(), keys)
        if stored is not None:
            yield from self.stored_rows(stored.before(stored_keys))
        found, old = state.read(stored_keys)
        partials = [column_of(table, field.name) for field in self.input_fields]
        before = _Keys(decode_keys(keys, self.key_schema), found, old)
        if self.emits_running_results:
            new = yield from self._every_value(before, partials, grouping, first_rows)
        else:
            new = self._merged(before, partials)
            yield self._first_changes(before, new)
        existed = _mask(found, len(keys))
        _write(state, stored_keys, new, existed, self._exists(new, len(keys)))

    def _merged(self, before: "_Keys", new: list[pa.Array]) -> list[pa.Array]:
        """Merge the stored state with one new partial per key, and return the state of all keys."""
        if not len(before.found):
            return new
        codes = np.concatenate([before.found, np.arange(before.count)])
        both = [pa.concat_arrays([a, b]) for a, b in zip(before.columns, new, strict=True)]
        return self.aggregator.merge(Grouping(codes, before.count), both)

    def _every_value(
        self, before: "_Keys", partials: list[pa.Array], grouping: Grouping, first_rows: "np.typing.NDArray[np.intp]"
    ) -> Generator[KeyedChanges, None, list[pa.Array]]:
        """Yield one change per record, and return the state after the last record.

        Round n handles the n-th record of every key that has at least n. For records a1 a2 b1 the rounds are {a1, b1}
        and {a2}.
        """
        state = before
        for number in range(int(grouping.rows.max())):
            active = np.flatnonzero(grouping.rows > number)
            rows = pa.array(first_rows[active] + number)
            part = state.of(active)
            merged = self._merged(part, [column.take(rows) for column in partials])
            yield self._first_changes(part, merged) if number == 0 else self._changes(part, merged)
            state = state.replaced(active, merged)
        return state.columns  # of all keys, because each had at least one record

    def stored_rows(self, ranges: Iterator[StateRange]) -> Iterator[KeyedChanges]:
        """Yield the stored keys of `ranges` as inserts."""
        codec = RowCodec(self.states[0].fields)
        nothing = codec.unpack([]) if self.emits_retractions else []  # the rows before, which only retractions need
        for found in ranges:
            keys = decode_keys(cut_keys(found.keys, self.key_schema, before=PREFIX_BYTES), self.key_schema)
            yield self._changes(_Keys(keys, _NO_ROWS, nothing), codec.unpack(found.values))

    def _first_changes(self, before: "_Keys", new: list[pa.Array]) -> KeyedChanges:
        """Return the first changes of these keys in this epoch; with a full snapshot, they are inserts."""
        changes = self._changes(before, new)
        return changes.as_new() if self.emits_full_snapshot else changes

    def _changes(self, before: "_Keys", new: list[pa.Array]) -> KeyedChanges:
        return KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=before.keys,
            existed=_mask(before.found, before.count),
            exists=self._exists(new, before.count),
            results=self.aggregator.results(new),
            previous=self.aggregator.results(before.columns) if self.emits_retractions else None,
        )

    def _combined(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        grouping, first_rows = segments(column_of(table, KEY_COLUMN))
        if grouping.size == table.num_rows:
            return table
        merged = self.aggregator.merge(grouping, [column_of(table, field.name) for field in self.input_fields])
        keys = table.select([KEY_GROUP_COLUMN, KEY_COLUMN]).take(pa.array(first_rows)).combine_chunks()
        return pa.table([*keys.columns, *merged], names=table.column_names)

    def _exists(self, columns: list[pa.Array], size: int) -> "np.typing.NDArray[np.bool_]":
        """Return which keys still exist. A key of a changelog is deleted when all of its rows have been retracted."""
        if not self.is_changelog:
            return np.ones(size, np.bool_)
        counts = self.aggregator.row_counts(columns)
        check_inserted(counts)
        return counts > 0


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a batch, and the stored state of some: row i of `columns` is the state of key `found[i]`."""

    keys: Sequence[pa.Array]
    found: "np.typing.NDArray[np.intp]"
    columns: list[pa.Array]

    @property
    def count(self) -> int:
        return len(self.keys[0])

    def of(self, positions: "np.typing.NDArray[np.intp]") -> "_Keys":
        """Return the keys at ascending `positions`, renumbered from 0."""
        row_of = np.full(self.count, -1)
        row_of[self.found] = np.arange(len(self.found))
        rows = row_of[positions]
        has_state = rows >= 0
        kept = pa.array(rows[has_state])
        taken = pa.array(positions)
        return _Keys(
            [key.take(taken) for key in self.keys],
            np.flatnonzero(has_state),
            [column.take(kept) for column in self.columns],
        )

    def replaced(self, positions: "np.typing.NDArray[np.intp]", columns: list[pa.Array]) -> "_Keys":
        """Return the same keys with the state `columns` for the keys at `positions`."""
        others = ~np.isin(self.found, positions)
        found = np.concatenate([self.found[others], positions])
        order = pa.array(np.argsort(found))
        rest = pa.array(others)
        both = [pa.concat_arrays([old.filter(rest), new]) for old, new in zip(self.columns, columns, strict=True)]
        return _Keys(self.keys, np.sort(found), [column.take(order) for column in both])


def _mask(positions: "np.typing.NDArray[np.intp]", size: int) -> "np.typing.NDArray[np.bool_]":
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask


def _write(
    state: StateTable,
    stored_keys: Sequence[bytes],
    columns: list[pa.Array],
    existed: "np.typing.NDArray[np.bool_]",
    exists: "np.typing.NDArray[np.bool_]",
) -> None:
    if exists.all():
        state.write(stored_keys, columns)
        return
    touched = np.flatnonzero(existed | exists)  # a key that was inserted and deleted within this epoch is not written
    kept = pa.array(touched)
    state.write(
        values_at(stored_keys, touched),
        [column.take(kept) for column in columns],
        deleted=np.flatnonzero(~exists[touched]).tolist(),
    )
