"""Settling the sessions of an epoch: it merges, emits and retracts sessions, and stores or deletes their state."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, decode_keys, group_codes
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.packed_multiset import MultisetAggregator
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import KEY_COLUMN, KEY_GROUP_COLUMN, TIME_COLUMN
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.firing import Firing
from mixedmode.operators.window.keys import Int64s
from mixedmode.operators.window.output import instants
from mixedmode.operators.window.partials import CHANGED, GIVEN, NEW, STORED, Bools, Layout, Partials, concat, take_all
from mixedmode.operators.window.session_state import END, Sessions, SessionState

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SessionSettlement:
    """Settle tables of whole keys against the stored sessions in one epoch.

    `names` are the names of the output columns. The output has the columns of the user's key only if `is_keyed`.
    """

    layout: Layout
    key_schema: KeySchema
    names: tuple[str, ...]
    is_keyed: bool
    emits_retractions: bool
    firing: Firing
    state: SessionState
    gap_us: int

    def settle(self, table: pa.Table) -> Iterator[KeyedChanges]:
        """Emit the sessions of `table` that fire or have an early result, and write the sessions that may still change.

        `table` is sorted and has one chunk. An emitted session that became part of another session is retracted.
        """
        key_of_row, first_rows = segments(column_of(table, KEY_COLUMN))
        first = pa.array(first_rows)
        keys = column_of(table, KEY_COLUMN).take(first)
        groups = column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy()
        stored = self.state.read(groups, keys)
        merged = self.merged(stored, self._arrived(table, key_of_row.codes.astype(np.int64)))
        gives = self.gives(merged)
        if gives.any() or merged.is_retracted.any():
            yield self._changes(keys, merged, np.flatnonzero(gives))
        self.write(groups, keys, merged, gives)

    def _arrived(self, table: pa.Table, key_of_row: Int64s) -> Sessions:
        is_session = pc.is_valid(column_of(table, END.name))
        key = key_of_row[is_session.to_numpy(zero_copy_only=False)]
        table = table.filter(is_session)
        starts, ends = (column_of(table, name).to_numpy() for name in (TIME_COLUMN, END.name))
        return Sessions(key, starts, ends, self.layout.from_table(table))

    def merged(self, stored: Sessions, arrived: Sessions) -> "Merged":
        """Merge the stored and the new sessions of each key that touch or overlap.

        From the sessions [0, 10), [10, 15) and [20, 25) of a key, the first two become [0, 15).
        """
        windows = concat([stored.windows, arrived.windows])
        both = Sessions(
            np.concatenate([stored.key, arrived.key]),
            np.concatenate([stored.starts, arrived.starts]),
            np.concatenate([stored.ends, arrived.ends]),
            windows,
        )
        order = np.lexsort((both.starts, both.key))
        key, starts, ends = both.key[order], both.starts[order], both.ends[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (key[1:] != key[:-1]) | (starts[1:] > _greatest_so_far(key, ends)[:-1])
        first = np.flatnonzero(begins)
        became = np.empty(len(order), np.int64)
        became[order] = np.cumsum(begins) - 1
        ends = np.maximum.reduceat(ends, first) if len(first) else ends
        return self._united(stored, both, became, (key[first], starts[first], ends))

    def _united(
        self, stored: Sessions, both: Sessions, became: Int64s, bounds: tuple[Int64s, Int64s, Int64s]
    ) -> "Merged":
        """Return the sessions after the merge.  became: the union that each of `both` is in; bounds: of the unions."""
        key, starts, ends = bounds
        unions = np.arange(len(key))
        registers = self.layout.aggregator.merge(Grouping(became, len(key)), both.windows.registers)
        is_new = np.zeros(len(key), np.bool_)
        is_new[became[len(stored.key) :]] = True
        if isinstance(self.layout.aggregator, MultisetAggregator):
            parts = self.layout.aggregator.parted(registers, self.gap_us)
            unions, registers = parts.owners, parts.columns
            key, starts, ends = key[unions], parts.first_us, parts.last_us + self.gap_us
        same_start = _positions((key, starts), (stored.key, stored.starts))
        is_same = (same_start >= 0) & (stored.ends == np.append(ends, 0)[same_start])
        stays_as = np.full(len(key), -1)
        stays_as[same_start[is_same]] = np.flatnonzero(is_same)
        marks = np.where(is_new[unions], NEW, np.uint8(0))
        marks[same_start[is_same]] |= stored.windows.marks[is_same]
        given = take_all(stored.windows.given, stays_as)
        fired = stored.ends <= self.firing.fired_us
        return Merged(
            stored=stored,
            union_of_stored=became[: len(stored.key)],
            same_start=same_start,
            is_same=is_same,
            was_given=fired | stored.windows.has(GIVEN),
            sessions=Sessions(key, starts, ends, Partials(registers, marks, given)),
            unions=unions,
            stays_as=stays_as,
        )

    def gives(self, merged: "Merged") -> Bools:
        """Return (m,) True for the sessions that are emitted in this epoch."""
        windows, ends = merged.sessions.windows, merged.sessions.ends
        is_late, is_open = ends <= self.firing.fired_us, ends > self.firing.firing_us
        has_changed = windows.has(NEW) | windows.has(CHANGED)
        gives = is_late & windows.has(NEW)
        gives |= ~is_late & ~is_open & (has_changed | ~windows.has(GIVEN))
        if self.firing.shows_open:
            gives |= is_open & has_changed
        if self.firing.may_show_open:  # a retracted session is replaced in the same epoch
            gives |= np.isin(merged.unions, merged.union_of_stored[merged.is_retracted])
        return gives

    def _changes(self, keys: pa.Array, merged: "Merged", rows: Rows) -> KeyedChanges:
        retracted = np.flatnonzero(merged.is_retracted)
        stays_as = merged.stays_as[rows]
        existed = (
            (stays_as >= 0) & merged.was_given[stays_as] if len(merged.was_given) else np.zeros(len(rows), np.bool_)
        )
        old, new = merged.stored, merged.sessions
        key = pa.array(np.concatenate([old.key[retracted], new.key[rows]]))
        starts = np.concatenate([old.starts[retracted], new.starts[rows]])
        ends = np.concatenate([old.ends[retracted], new.ends[rows]])
        results = self.layout.aggregator.results
        previous = self._previous(old, np.concatenate([retracted, stays_as[existed]]))
        given = results(take_all(new.windows.registers, rows))
        return KeyedChanges(
            names=self.names,
            keys=[instants(starts), instants(ends), *self._user_key(keys.take(key))],
            existed=np.concatenate([np.ones(len(retracted), np.bool_), existed]),
            exists=np.arange(len(key)) >= len(retracted),
            results=[pa.concat_arrays([pa.nulls(len(retracted), c.type), c]) for c in given],
            previous=results(previous) if self.emits_retractions else None,
        )

    def _user_key(self, keys: pa.Array) -> list[pa.Array]:
        return decode_keys(keys, self.key_schema) if self.is_keyed else []

    def _previous(self, stored: Sessions, rows: Rows) -> list[pa.Array]:
        """Return the registers of the rows that the output holds: as stored if fired, else as emitted early."""
        registers = take_all(stored.windows.registers, rows)
        if not self.layout.keeps_given:
            return registers
        has_fired = pa.array(stored.ends[rows] <= self.firing.fired_us)
        given = take_all(stored.windows.given, rows)
        return [pc.if_else(has_fired, *pair) for pair in zip(registers, given, strict=True)]

    def write(self, groups: npt.NDArray[np.uint16], keys: pa.Array, merged: "Merged", gives: Bools) -> None:
        """Write the sessions that may still change, and delete those that are gone.  gives: see `gives`."""
        new, old = merged.sessions, merged.stored
        is_kept = new.ends > self.firing.forgetting_us
        is_open = new.ends > self.firing.firing_us
        becomes_kept = (merged.same_start >= 0) & np.append(is_kept, False)[merged.same_start]
        put = np.flatnonzero(is_kept & (new.windows.has(NEW) | (gives & is_open)))
        kept = new.take(put)
        kept = Sessions(kept.key, kept.starts, kept.ends, self.layout.after(kept.windows, gives[put]))
        self.state.write(groups, keys, old.take(np.flatnonzero(~becomes_kept)), kept)
        gone = old.take(np.flatnonzero(~becomes_kept | ~merged.is_same))
        self.state.write_ends(groups, keys, gone, new.take(np.flatnonzero(is_kept & ~new.windows.has(STORED))))


@dataclass(frozen=True, slots=True)
class Merged:
    """The stored sessions (n,), and the sessions after the merge (m,).

    Stored and new sessions that touch or overlap are one union. It is one session, or several if rows were retracted.
    """

    stored: Sessions
    union_of_stored: Int64s  #: (n,) index of the union that each stored session is in
    same_start: Int64s  #: (n,) index of the session of the same key with the same start, or -1
    is_same: Bools  #: (n,) True if this session has the same bounds
    was_given: Bools  #: (n,) True if the output has a row of the stored session
    sessions: Sessions  #: marks and given registers come from the stored session with the same bounds
    unions: Int64s  #: (m,) index of the union that each session is in
    stays_as: Int64s  #: (m,) index of the stored session with the same bounds, or -1

    @property
    def is_retracted(self) -> Bools:
        """(n,) True if the output has a row of the stored session that must be retracted."""
        return self.was_given & ~self.is_same


def _greatest_so_far(key: Int64s, ends: Int64s) -> Int64s:
    """Return the greatest end (n,) up to each row among the rows of its key; keys ascend.

    For keys [0, 0, 0, 1] and ends [5, 9, 7, 3] the result is [5, 9, 9, 3].
    """
    order = np.argsort(ends)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    greatest = np.maximum.accumulate(key * len(order) + rank)  # a later key ranks above all earlier keys
    found: Int64s = ends[order[greatest - key * len(order)]]
    return found


def _positions(among: tuple[Int64s, Int64s], wanted: tuple[Int64s, Int64s]) -> Int64s:
    """Return the position (n,) of each pair of `wanted` among the distinct pairs `among` (m,), or -1.

    Among the pairs (0, 5), (0, 9) and (1, 5), the pairs (0, 9) and (1, 7) are at 1 and -1.
    """
    both = [pa.array(np.concatenate(columns)) for columns in zip(among, wanted, strict=True)]
    codes = group_codes(both).codes
    position_of_code = np.full(len(codes), -1)
    count = len(among[0])
    position_of_code[codes[:count]] = np.arange(count)
    return position_of_code[codes[count:]]
