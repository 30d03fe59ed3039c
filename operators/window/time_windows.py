"""Aggregates over tumbling, sliding and cumulating windows.

    fold      folds records into panes, and panes into windows; makes one partial per (key, window); drops windows that
              are over
    due       sends stored windows that fire or are purged in this epoch to the sorter, with the new ones
    process   reads and merges the stored part of open windows (the others are complete); emits windows that fire, and
              writes windows that may still change

State layout: stored key = key group | 0 | window end | key, value = registers. The window end comes before the key, so
the due windows are one range per key group. In the sorter's tables, window end and key together are the key. The key
group is computed from the user's key alone.

A window is emitted when the watermark reaches its end. A late record within the allowed lateness changes the window,
and it is emitted again. With `early_every_ms`, live epochs also emit open windows that have changed, each time the
clock passes a multiple of this interval.

Windows of processing time are the same: each record then has the time of its epoch, and the clock is the
watermark. Their rows have no event time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import Aggregator
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    Batch,
    Changelog,
    Folded,
    OperatorAttributes,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.firing import Firing
from mixedmode.operators.window.fold import fold_time_windows
from mixedmode.operators.window.keys import encoded_times, joined, leading_times, stored_schema
from mixedmode.operators.window.output import WINDOW_BOUNDS
from mixedmode.operators.window.partials import CHANGED, Layout, Partials
from mixedmode.operators.window.settle import Settlement
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import Combine
from mixedmode.state import RowCodec, StateDescriptor, StateTable
from mixedmode.state.keys import PREFIX_BYTES, cut_keys
from mixedmode.time import TimeWindows, shifted_us

_STATE_ID = 0


@dataclass(frozen=True, slots=True)
class TimeWindowAggregateOperator(OperatorBase):
    """Aggregate time windows. Output: window_start, window_end, key, results.

    `key_schema` is None for un-keyed input. `emits_retractions`: another keyed step is downstream. `is_changelog`: rows
    of the input may be retracted. `by_clock`: windows of processing time.
    """

    aggregator: Aggregator
    key_schema: KeySchema | None
    windows: TimeWindows
    allowed_lateness_us: int
    early_every_ms: int | None
    emits_retractions: bool
    is_changelog: bool = False
    by_clock: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """Without late changes and early results, each window is emitted once."""
        if self.by_clock:
            return OperatorTraits(by_clock=True)
        is_final = self.allowed_lateness_us == 0 and self.early_every_ms is None
        return OperatorTraits(
            emits=Changelog.APPEND if is_final else Changelog.RETRACT,
            emits_windows=True,
            changes_for_us=self.allowed_lateness_us,
            fires_by_watermark=True,
        )

    @property
    def attributes(self) -> OperatorAttributes:
        """The operator's properties. Early results are due by the clock; a record may be in several windows."""
        return OperatorAttributes(
            uses_clock=self.by_clock or self.early_every_ms is not None, rows_per_record=self.windows.windows_per_record
        )

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The windows that are open or may still change."""
        return (StateDescriptor(_STATE_ID, "windows", self.layout.state_fields),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The partial windows: the input columns other than key group and key."""
        return self.layout.table_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The bounds of the window, and the key columns."""
        return (*WINDOW_BOUNDS, *(self.key_schema.fields if self.key_schema else ()))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The bounds of the window, the key columns, and the results."""
        return (*self.output_key, *self.aggregator.result_fields)

    @property
    def combine(self) -> Combine | None:
        """The function that merges the partials of one window in the sorter."""
        return self._combined

    @property
    def layout(self) -> Layout:
        """The columns of a window."""
        return Layout.of(
            self.aggregator, shows_early=self.early_every_ms is not None, is_followed=self.emits_retractions
        )

    @property
    def sorted_schema(self) -> KeySchema:
        """The schema of the key in the sorter: window end, then the user's key."""
        return KeySchema((pa.field("window_end", pa.int64()), *stored_schema(self.key_schema).fields))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return one partial per key and window of the batch. A record is late if all of its windows are over.

        Raise InvalidJobError for an event time that is outside the range of windows.
        """
        over_us = shifted_us(late_us, -self.allowed_lateness_us)
        folded, late_rows = fold_time_windows(
            batch,
            self.key_schema,
            self.aggregator,
            self.windows,
            over_us=over_us,
            max_parallelism=max_parallelism,
            have_one_time=self.by_clock,
        )
        keys = joined(encoded_times(folded.ends), folded.keys)
        return Folded(self._table(folded.groups, keys, self.layout.new(folded.registers)), late_rows)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the stored windows that fire, are purged, or are emitted early in this epoch."""
        firing = self._firing(context)
        codec = RowCodec(self.layout.state_fields)
        for found in stored_in(context, _STATE_ID, firing.due_ranges(with_open=firing.shows_open)):
            keys = cut_keys(found.keys, self.sorted_schema, before=PREFIX_BYTES)
            windows, groups = self.layout.from_state(codec.unpack(found.values)), found.groups()
            if firing.shows_open:
                wanted = (leading_times(keys) <= firing.firing_us) | windows.has(CHANGED)
                rows = np.flatnonzero(wanted)
                keys, windows, groups = keys.take(pa.array(rows)), windows.take(rows), groups[rows]
            yield self._table(groups, keys, windows)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Process sorted partials. Yield the emitted windows, and write those that may still change."""
        settlement = Settlement(
            layout=self.layout,
            sorted_schema=self.sorted_schema,
            names=tuple(field.name for field in self.output_fields),
            windows=self.windows,
            is_keyed=self.key_schema is not None,
            emits_retractions=self.emits_retractions,
            firing=self._firing(context),
            state=StateTable(self.states[0], context.backend),
            is_changelog=self.is_changelog,
        )
        for table in tables:
            if table.num_rows:
                yield from settlement.settle(table.combine_chunks())

    def _firing(self, context: SubtaskContext) -> Firing:
        return Firing.of(context.time, allowed_lateness_us=self.allowed_lateness_us, early_every_ms=self.early_every_ms)

    def _table(self, groups: npt.NDArray[np.uint16], keys: pa.Array, windows: Partials) -> pa.Table:
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in self.input_fields)]
        return pa.table([pa.array(groups), keys, *self.layout.table_columns(windows)], names=names)

    def _combined(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        keys = column_of(table, KEY_COLUMN)
        grouping, first_rows = segments(keys)
        if grouping.size == table.num_rows:
            return table
        first = pa.array(first_rows)
        groups = column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy()
        return self._table(groups, keys.take(first), self.layout.merge(grouping, self.layout.from_table(table)))
