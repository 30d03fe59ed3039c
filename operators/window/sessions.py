"""Aggregates over sessions: records of a key with no more than a gap between them.

A record at t covers [t, t + gap). Intervals that touch or overlap form one session (Flink's rule, and Spark's). So a
record exactly at the end of a session still belongs to it, and a session is complete when the watermark is beyond its
end. A record is late if the watermark has reached the end of the session of this record alone, and the allowed lateness
besides. The session that the record might have joined does not matter (Spark's rule). So lateness depends only on the
record and the watermark.

    fold      turns records into the sessions of the batch alone, one partial each
    due       finds keys with a session that fires or is purged in this epoch, as rows without a session
    process   merges the stored and the new sessions of each key; retracts emitted sessions that became part of another

In this state layout, the sessions of a key are one range, and the sessions that end in a time interval are one range
per key group:

    0  sessions   key group | 0 | key | start               end, registers
    1  ends       key group | 1 | end | key | start         version u8 (1)

The ends are not in key order. So they are buffered, and written when their key group is complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import Aggregator
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    TIME_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorAttributes,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.window.firing import Firing
from mixedmode.operators.window.fold import fold_sessions, times_of, without_late
from mixedmode.operators.window.keys import TIME_BYTES, Int64s, stored_schema, trailing_times
from mixedmode.operators.window.output import WINDOW_BOUNDS
from mixedmode.operators.window.partials import CHANGED, Layout
from mixedmode.operators.window.session_state import END, ENDS_ID, SESSIONS_ID, SessionState, session_states
from mixedmode.operators.window.settle_sessions import SessionSettlement
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state import RowCodec, StateDescriptor
from mixedmode.state.keys import PREFIX_BYTES, cut_keys
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, checked_times, shifted_us

BEYOND_END_US = 1  # how far the watermark must be beyond the end of a session for it to fire


@dataclass(frozen=True, slots=True)
class SessionAggregateOperator(OperatorBase):
    """Aggregate sessions. Output: window_start, window_end, key, results.

    `key_schema` is None for un-keyed input. `emits_retractions`: another keyed step is downstream. Rows of the input
    may be retracted if `aggregator` is a MultisetAggregator; then a session may also be divided.
    """

    aggregator: Aggregator
    key_schema: KeySchema | None
    gap_us: int
    allowed_lateness_us: int
    early_every_ms: int | None
    emits_retractions: bool

    combine = None  # `process` merges the sessions, when all sessions of a key are present

    @property
    def traits(self) -> OperatorTraits:
        """Without late changes and early results, each window is emitted once."""
        is_final = self.allowed_lateness_us == 0 and self.early_every_ms is None
        return OperatorTraits(
            emits=Changelog.APPEND if is_final else Changelog.RETRACT,
            emits_windows=True,
            delay_us=BEYOND_END_US,
            changes_for_us=self.allowed_lateness_us,
            fires_by_watermark=True,
        )

    @property
    def attributes(self) -> OperatorAttributes:
        """The operator's properties; early results become due by the clock."""
        return OperatorAttributes(uses_clock=self.early_every_ms is not None)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The sessions that are open or may still change, and the index of their ends."""
        return session_states(self.layout, SESSIONS_ID)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The input columns other than key group, key and time. The time is the start of the session.

        The end is NULL in a row of `due`, which only selects its key.
        """
        return (END, *self.layout.table_fields)

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The bounds of the session, and the key columns."""
        return (*WINDOW_BOUNDS, *(self.key_schema.fields if self.key_schema else ()))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The bounds of the session, the key columns, and the results."""
        return (*self.output_key, *self.aggregator.result_fields)

    @property
    def layout(self) -> Layout:
        """The columns of a session other than its bounds."""
        return Layout.of(
            self.aggregator, shows_early=self.early_every_ms is not None, is_followed=self.emits_retractions
        )

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return one partial per key and session of the batch.

        Raise InvalidJobError for an event time that is outside the range of windows.
        """
        over_us = shifted_us(late_us, -self.allowed_lateness_us)
        batch, late_rows = without_late(batch, checked_times(times_of(batch)) + self.gap_us <= over_us)
        folded = fold_sessions(batch, self.key_schema, self.aggregator, self.gap_us, max_parallelism=max_parallelism)
        assert folded.starts is not None
        sessions = [pa.array(folded.ends), *self.layout.table_columns(self.layout.new(folded.registers))]
        return Folded(self._table(folded.groups, folded.keys, folded.starts, sessions), late_rows)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the keys of sessions that fire, are purged, or are emitted early in this epoch."""
        firing = self._firing(context)
        schema = stored_schema(self.key_schema)
        for found in stored_in(context, ENDS_ID, firing.due_ranges()):
            keys = cut_keys(found.keys, schema, before=PREFIX_BYTES + TIME_BYTES, after=TIME_BYTES)
            starts = trailing_times(pa.array(found.keys, pa.large_binary()))
            yield self._asking(found.groups(), keys, starts)
        if firing.shows_open:
            yield from self._changed(context)

    def _changed(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the keys of sessions that have changed since they were last emitted."""
        codec = RowCodec(self.states[0].fields)
        for found in stored_in(context, SESSIONS_ID, [(MIN_TIME_US, MAX_TIME_US)]):
            _, *columns = codec.unpack(found.values)
            changed = np.flatnonzero(self.layout.from_state(columns).has(CHANGED))
            keys = cut_keys(found.keys, stored_schema(self.key_schema), before=PREFIX_BYTES, after=TIME_BYTES)
            starts = trailing_times(pa.array(found.keys, pa.large_binary()))
            yield self._asking(found.groups()[changed], keys.take(pa.array(changed)), starts[changed])

    def _asking(self, groups: npt.NDArray[np.uint16], keys: pa.Array, starts: Int64s) -> pa.Table:
        nothing = [pa.nulls(len(starts), field.type) for field in self.input_fields]
        return sort_table(self._table(groups, keys, starts, nothing))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Process sorted partials of whole keys. Yield the emitted sessions, and write those that may still change."""
        state = SessionState(context.backend, self.layout, SESSIONS_ID)
        settlement = SessionSettlement(
            layout=self.layout,
            key_schema=stored_schema(self.key_schema),
            names=tuple(field.name for field in self.output_fields),
            is_keyed=self.key_schema is not None,
            emits_retractions=self.emits_retractions,
            firing=self._firing(context),
            state=state,
            gap_us=self.gap_us,
        )
        for table in tables:
            if table.num_rows:
                yield from settlement.settle(table.combine_chunks())
        state.finish()

    def _firing(self, context: SubtaskContext) -> Firing:
        return Firing.of(
            context.time,
            allowed_lateness_us=self.allowed_lateness_us,
            early_every_ms=self.early_every_ms,
            margin_us=BEYOND_END_US,
        )

    def _table(
        self, groups: npt.NDArray[np.uint16], keys: pa.Array, starts: Int64s, sessions: list[pa.Array]
    ) -> pa.Table:
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, TIME_COLUMN, *(field.name for field in self.input_fields)]
        return pa.table([pa.array(groups), keys, pa.array(starts), *sessions], names=names)
