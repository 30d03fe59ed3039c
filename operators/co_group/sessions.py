"""The operator of a `co-group` step over sessions: rows of both inputs of a key with no more than a gap between them.

A row of either side at t covers [t, t + gap); intervals of both sides that touch or overlap are one session. The rules
of a session are those of aggregates over sessions, and so is the code that merges them (operators/window/sessions.py):
a session ends when the watermark is beyond its end. A row is late if the watermark has reached t + gap.

The end of a session moves while rows come, so rows wait by key and time, and the bounds of sessions beside them. An
epoch with new rows of a key reads only the bounds; the rows are read when the session ends.

    left, right      see session_rows.py
    sessions, ends   see operators/window/sessions.py; a session has its number of rows
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.operators.aggregate import aggregate_function, aggregator_for
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.co_group.base import CoGroupBase
from mixedmode.operators.co_group.calls import GroupCalls, Groups, SideGroups
from mixedmode.operators.co_group.session_rows import SessionRows
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    SIDE_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorTraits,
    SideRows,
    SubtaskContext,
)
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.layout import LEFT, RIGHT
from mixedmode.operators.join.markers import MARKER, marker_tables
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.firing import Firing
from mixedmode.operators.window.keys import TIME_BYTES
from mixedmode.operators.window.partials import Layout
from mixedmode.operators.window.session_state import Sessions, SessionState, session_states
from mixedmode.operators.window.sessions import BEYOND_END_US
from mixedmode.operators.window.settle_sessions import SessionSettlement
from mixedmode.state import StateDescriptor
from mixedmode.time import checked_times, shifted_us

__all__ = ["SessionCoGroupOperator"]

_SESSIONS, _ENDS = 2, 3  #: state ids; those of rows are the numbers of the sides
_COUNT = aggregate_function("count", None, None, has_event_time=True, where="count")
_LAYOUT = Layout.of(
    aggregator_for({"rows": _COUNT}, arguments=0, counts_rows=False), shows_early=False, is_followed=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCoGroupOperator(CoGroupBase):
    """Calls the function for each key and session. Implements KeyedOperator."""

    gap_us: int

    @property
    def traits(self) -> OperatorTraits:
        """The watermark ends sessions, and each is emitted once."""
        return OperatorTraits(emits_windows=True, fires_by_watermark=True, state_uses_time=True, delay_us=BEYOND_END_US)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side whose session has not ended, the open sessions, and the index of their ends."""
        sides = (counted_state(LEFT, "waiting left"), counted_state(RIGHT, "waiting right"))
        return (*sides, *session_states(_LAYOUT, _SESSIONS))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the rows of both sides, at their time.

        Raise InvalidJobError for an event time that is outside the range of windows.
        """
        assert batch.times_us is not None, "a window step is planned only where there is an event time"
        checked_times(batch.times_us)
        over_us = shifted_us(late_us, 1 - self.gap_us)  # a row at t is late if t + gap <= late_us
        return self.layout.folded(batch, late_us=over_us, keeps_null_keys=(True, True), max_parallelism=max_parallelism)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield a marker for each key with a session that ends in this epoch."""
        for due_us in _firing(context).due_ranges():
            yield from marker_tables(self.layout, _ENDS, due_us, context, bytes_after=TIME_BYTES)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows | SideRows]:
        """Call the function for each key and session that ends in this epoch. Write what waits.

        Raise InvalidJobError if the function fails and `on_error` is `fail`.
        """
        run = _Run(self, context)
        with GroupCalls(self) as calls:
            for table in tables:
                ended = run.ended(table)
                if ended is not None:
                    yield from calls.call(ended)
            yield from calls.rows()
            run.finish()


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a table (k,), their key groups, their sessions, and which of these end in this epoch."""

    groups: npt.NDArray[np.uint16]
    encoded: pa.Array
    sessions: Sessions
    ends: Bools

    @property
    def ended(self) -> npt.NDArray[np.intp]:
        """Return the sessions that end, ascending."""
        return np.flatnonzero(self.ends)


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: SessionCoGroupOperator, context: SubtaskContext) -> None:
        self._operator = operator
        self._layout = operator.layout
        self._sessions = SessionState(context.backend, _LAYOUT, _SESSIONS)
        self._settlement = SessionSettlement(
            layout=_LAYOUT,
            key_schema=operator.layout.key_schema,
            names=(),
            is_keyed=True,
            emits_retractions=False,
            firing=_firing(context),
            state=self._sessions,
            gap_us=operator.gap_us,
        )
        self._rows = [SessionRows(operator.layout, side, context.backend) for side in (LEFT, RIGHT)]

    def ended(self, table: pa.Table) -> Groups | None:
        """Merge the rows of a sorted table of whole keys with the sessions. Return those that end; None without any."""
        encoded = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(encoded)
        codes, times_us = grouping.codes.astype(np.int64), column_of(table, TIME_COLUMN).to_numpy()
        sides = column_of(table, SIDE_COLUMN).to_numpy()
        groups, keys = column_of(table, KEY_GROUP_COLUMN).to_numpy()[first_rows], encoded.take(pa.array(first_rows))
        own = np.flatnonzero(sides != MARKER)
        ones = _LAYOUT.new([pa.array(np.ones(len(own), np.int64))])
        arrived = Sessions(codes[own], times_us[own], times_us[own] + self._operator.gap_us, ones)
        merged = self._settlement.merged(self._sessions.read(groups, keys), arrived)
        ends = self._settlement.gives(merged)
        self._settlement.write(groups, keys, merged, ends)
        of = _Keys(groups, keys, merged.sessions, ends)
        left, right = (self._side(table, side, np.flatnonzero(sides == side), codes, of) for side in (LEFT, RIGHT))
        if not ends.any():
            return None
        over = merged.sessions.take(of.ended)
        return Groups(keys.take(pa.array(over.key)), over.starts, over.ends, left, right)

    def finish(self) -> None:
        """Write what is left, after the last table."""
        self._sessions.finish()

    def _side(self, table: pa.Table, side: int, rows: npt.NDArray[np.intp], codes: Int64s, keys: _Keys) -> SideGroups:
        """Write the rows of a side that wait. Return those whose session ends, from the table and from the state.

        rows: those of the side. codes: (n,) the key of each row of the table.
        """
        times_us = column_of(table, TIME_COLUMN).to_numpy()[rows]
        numbers = _session_of(codes[rows], times_us, keys.sessions)
        is_over = keys.ends[numbers]
        due = np.unique(keys.sessions.key[keys.ended])
        found = self._rows[side].read(keys.groups[due], keys.encoded.take(pa.array(due)))
        stored_in = _session_of(due[found.codes], found.times_us, keys.sessions)
        stored = np.flatnonzero(keys.ends[stored_in])
        waits = np.flatnonzero(~is_over)
        own = codes[rows[waits]]
        self._rows[side].write(
            [found.entries[entry] for entry in np.unique(found.entry_of_row[stored]).tolist()],
            keys.groups[own],
            keys.encoded.take(pa.array(own)),
            times_us[waits],
            self._layout.columns_of(table, side, rows[waits]),
        )
        over = np.flatnonzero(is_over)
        new = self._layout.columns_of(table, side, rows[over])
        columns = [
            pa.concat_arrays([column, before.take(pa.array(stored))])
            for column, before in zip(new, found.columns, strict=True)
        ]
        own_numbers = np.concatenate([numbers[over], stored_in[stored]])
        time_column = self._operator.time_columns[side]
        return SideGroups.of(self._layout.sides[side], time_column, columns, own_numbers, keys.ended)


def _firing(context: SubtaskContext) -> Firing:
    return Firing.of(context.time, allowed_lateness_us=0, early_every_ms=None, margin_us=BEYOND_END_US)


def _session_of(codes: Int64s, times_us: Int64s, sessions: Sessions) -> Int64s:
    """Return (n,) the session of each row, the last one of its key that begins at its time or before.

    Sessions are sorted by key and start. Example, of one key, with sessions from 0 and from 20: rows at 7 and at 20 are
    in the first and in the second.
    """
    size = len(sessions.key)
    order = np.lexsort(
        (
            np.arange(size + len(codes)) >= size,  # a session sorts before a row at its start
            np.concatenate([sessions.starts, times_us]),
            np.concatenate([sessions.key, codes]),
        )
    )
    latest = np.cumsum(order < size) - 1
    found = np.empty(size + len(codes), np.int64)
    found[order] = latest
    return found[size:]
