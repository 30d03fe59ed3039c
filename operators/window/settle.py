"""Settling the windows of an epoch: it emits windows with their previous rows, and stores or deletes their state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN
from mixedmode.operators.retractions import check_inserted
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.firing import Firing
from mixedmode.operators.window.keys import Int64s, leading_times
from mixedmode.operators.window.output import instants
from mixedmode.operators.window.partials import CHANGED, GIVEN, NEW, STORED, Bools, Layout, Partials, concat, take_all
from mixedmode.state import StateTable
from mixedmode.time import TimeWindows


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settle tables of windows against the state in one epoch. A table has one row per window.

    `names` are the names of the output columns. The output has the columns of the user's key only if `is_keyed`. With
    `is_changelog`, rows may be retracted, also all rows of a window. Then its row is deleted at once, if it has one.
    """

    layout: Layout
    sorted_schema: KeySchema
    names: tuple[str, ...]
    windows: TimeWindows
    is_keyed: bool
    emits_retractions: bool
    firing: Firing
    state: StateTable
    is_changelog: bool

    def settle(self, table: pa.Table) -> Iterator[KeyedChanges]:
        """Emit the windows of `table` that fire or have an early result, and write the windows that may still change.

        `table` is sorted and has one chunk.
        """
        keys, groups = column_of(table, KEY_COLUMN), column_of(table, KEY_GROUP_COLUMN).to_numpy()
        ends = leading_times(keys)
        batch = _Batch(groups, keys, ends, ends <= self.firing.fired_us, ends > self.firing.firing_us)
        arrived = self.layout.from_table(table)
        before = self._read(batch, arrived)
        now = self._merged(arrived, before)
        is_empty = self._is_empty(now)
        gives = np.where(is_empty, self._existed(batch, now), self._gives(batch, now))
        if gives.any():
            yield self._changes(batch, before, now, np.flatnonzero(gives), exists=~is_empty)
        self._write(batch, now, gives, is_empty)

    def _read(self, batch: "_Batch", arrived: Partials) -> "_Before":
        """Read the stored windows that may exist and are not yet merged into `arrived`.

        Also read the late windows that were merged by the sorter, if their previous results must be retracted.
        """
        is_stored = arrived.has(STORED)
        is_wanted = ~is_stored & (batch.is_open | batch.is_late)  # stored windows that fire now were all due
        if self.emits_retractions:
            is_wanted |= is_stored & batch.is_late & arrived.has(NEW)
        rows = np.flatnonzero(is_wanted)
        found, columns = self.state.read(batch.stored_keys(self.state, rows))
        return _Before(rows[found], self.layout.from_state(columns))

    def _merged(self, arrived: Partials, before: "_Before") -> Partials:
        missing = np.flatnonzero(~arrived.has(STORED)[before.rows])
        if not len(missing):
            return arrived
        count = len(arrived.marks)
        grouping = Grouping(np.concatenate([before.rows[missing], np.arange(count)]), count)
        return self.layout.merge(grouping, concat([before.windows.take(missing), arrived]))

    def _gives(self, batch: "_Batch", now: Partials) -> Bools:
        # Emit a window that fired before if it has new records. Emit a window that fires now, unless an early result
        # was emitted and nothing has changed since. When early results are due, emit an open window if it has changed.
        has_changed = now.has(NEW)
        gives = batch.is_late & has_changed
        has_changed |= now.has(CHANGED)
        gives |= ~batch.is_late & ~batch.is_open & (has_changed | ~now.has(GIVEN))
        if self.firing.shows_open:
            gives |= batch.is_open & has_changed
        return gives

    def _existed(self, batch: "_Batch", now: Partials) -> Bools:
        """Return which windows have a row in the output from an earlier epoch."""
        return now.has(STORED) & (batch.is_late | now.has(GIVEN))

    def _changes(
        self, batch: "_Batch", before: "_Before", now: Partials, rows: npt.NDArray[np.intp], *, exists: Bools
    ) -> KeyedChanges:
        existed = self._existed(batch, now)[rows]
        end, *user_key = decode_keys(batch.keys.take(pa.array(rows)), self.sorted_schema)
        ends = end.to_numpy()
        bounds = [instants(self.windows.starts(ends)), instants(ends)]
        results = self.layout.aggregator.results
        previous = self._previous(batch, before, now, rows[existed]) if self.emits_retractions else None
        return KeyedChanges(
            names=self.names,
            keys=[*bounds, *(user_key if self.is_keyed else ())],
            existed=existed,
            exists=exists[rows],
            results=results(take_all(now.registers, rows)),
            previous=None if previous is None else results(previous),
        )

    def _previous(
        self, batch: "_Batch", before: "_Before", now: Partials, rows: npt.NDArray[np.intp]
    ) -> list[pa.Array]:
        """Return the registers of the rows that the output holds: as stored if fired, else as emitted early.

        The row numbers index both lists at once: stored windows first, then the early results of all windows. With 2
        stored windows, row 4 of the early results is row 6.
        """
        stored_row = np.full(len(batch.ends), -1)
        stored_row[before.rows] = np.arange(len(before.rows))
        if not self.layout.keeps_given:
            return take_all(before.windows.registers, stored_row[rows])
        both = [pa.concat_arrays(pair) for pair in zip(before.windows.registers, now.given, strict=True)]
        return take_all(both, np.where(batch.is_late[rows], stored_row[rows], len(before.rows) + rows))

    def _is_empty(self, now: Partials) -> Bools:
        """Return which windows have no row left, because all of them were retracted. Such a window has no result."""
        if not self.is_changelog:
            return np.zeros(len(now.marks), np.bool_)
        counts = self.layout.aggregator.row_counts(now.registers)
        check_inserted(counts)
        is_empty: Bools = counts == 0
        return is_empty

    def _write(self, batch: "_Batch", now: Partials, gives: Bools, is_empty: Bools) -> None:
        is_over = (batch.ends <= self.firing.forgetting_us) | is_empty
        deleted = is_over & now.has(STORED)
        kept = ~is_over & (now.has(NEW) | (gives & batch.is_open))
        rows = np.flatnonzero(deleted | kept)
        if len(rows):
            columns = self.layout.state_columns(self.layout.after(now.take(rows), gives[rows]))
            keys = batch.stored_keys(self.state, rows)
            self.state.write(keys, columns, deleted=np.flatnonzero(deleted[rows]).tolist())


@dataclass(frozen=True, slots=True)
class _Batch:
    """The windows of one table, (n,) each."""

    groups: npt.NDArray[np.uint16]
    keys: pa.Array
    ends: Int64s
    is_late: Bools  #: fired in an earlier epoch
    is_open: Bools  #: does not fire in this epoch

    def stored_keys(self, state: StateTable, rows: npt.NDArray[np.intp]) -> Sequence[bytes]:
        return state.stored_keys(self.groups[rows], self.keys.take(pa.array(rows)))


@dataclass(frozen=True, slots=True)
class _Before:
    """The stored windows that were read (m,): their ascending row numbers in the table, and their columns."""

    rows: npt.NDArray[np.intp]
    windows: Partials
