"""The operator of a `co-group` step: the rows of both inputs of a key and window come as two tables to one call.

A row waits in the state for the end of each of its windows. The time of a waiting row is the last microsecond of its
window: once the watermark has passed it, no row of the window can come any more. So the state is that of rows of a join
that wait (operators/join/waiting.py), and is bounded by the watermark. A window is emitted once, with all of its rows,
whatever epochs they came in. Sessions, whose ends move, have an operator of their own (sessions.py).

Source: FLIP-331 (EndOfStreamWindows and coGroup on sorted inputs).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.co_group.base import CoGroupBase
from mixedmode.operators.co_group.calls import GroupCalls, Groups, SideGroups
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    SIDE_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorAttributes,
    OperatorTraits,
    SideRows,
    SubtaskContext,
)
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.layout import LEFT, RIGHT, Rows
from mixedmode.operators.join.versions import block_numbers
from mixedmode.operators.join.waiting import WaitingWriter, waiting_entries, waiting_tables
from mixedmode.operators.tables import column_of
from mixedmode.state import StateDescriptor
from mixedmode.time import TimeWindows

__all__ = ["CoGroupOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoGroupOperator(CoGroupBase):
    """Calls the function for each key and window whose bounds do not depend on rows. Implements KeyedOperator."""

    windows: TimeWindows

    @property
    def traits(self) -> OperatorTraits:
        """The watermark ends windows, and each is emitted once."""
        return OperatorTraits(emits_windows=True, fires_by_watermark=True, state_uses_time=True)

    @property
    def attributes(self) -> OperatorAttributes:
        """A row is in several windows if they overlap."""
        return OperatorAttributes(rows_per_record=self.windows.windows_per_record)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side that wait, once for each of their windows."""
        return (counted_state(LEFT, "waiting left"), counted_state(RIGHT, "waiting right"))

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return each row once for each of its windows, at the window's last microsecond.

        Windows that have been emitted are left out; a row is late if all of its windows are.
        """
        assert batch.times_us is not None, "a window step is planned only where there is an event time"
        assert batch.sides is not None, "a co-group function has two inputs"
        row, ends = self.windows.windows_of_panes(self.windows.panes(batch.times_us))
        taken = pa.array(row)
        of_windows = replace(
            batch,
            keys=[key.take(taken) for key in batch.keys],
            arguments=[column.take(taken) for column in batch.arguments],
            times_us=ends - 1,
            sides=batch.sides[row],
        )
        folded = self.layout.folded(
            of_windows, late_us=late_us, keeps_null_keys=(True, True), max_parallelism=max_parallelism
        )
        rows = len(batch.times_us)
        is_late = np.bincount(row[folded.late_rows], minlength=rows) == np.bincount(row, minlength=rows)
        return replace(folded, late_rows=np.flatnonzero(is_late))

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the waiting rows of both sides whose window ends in this epoch."""
        for side in (LEFT, RIGHT):
            yield from waiting_tables(self.layout, side, side, context)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows | SideRows]:
        """Call the function for each key and window that ends in this epoch. Write the rows that wait.

        Raise InvalidJobError if the function fails and `on_error` is `fail`.
        """
        waiting = [WaitingWriter(context.backend, side, context.time.passed_us) for side in (LEFT, RIGHT)]
        with GroupCalls(self) as calls:
            for table in tables:
                ended = self._ended(table, context, waiting)
                if ended is not None:
                    yield from calls.call(ended)
            yield from calls.rows()
            for writer in waiting:
                writer.finish()

    def _ended(self, table: pa.Table, context: SubtaskContext, waiting: list[WaitingWriter]) -> Groups | None:
        """Write the rows of a sorted table of whole keys that wait. Return the groups that end; None without any."""
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        times_us = column_of(table, TIME_COLUMN).to_numpy()
        sides = column_of(table, SIDE_COLUMN).to_numpy()
        encoded = column_of(table, KEY_COLUMN)
        is_due = context.time.has_passed(times_us)
        for side in (LEFT, RIGHT):
            rows = np.flatnonzero(~is_due & (sides == side))
            columns = self.layout.columns_of(table, side, rows)
            entries = waiting_entries(self.layout, side, times_us[rows], encoded.take(pa.array(rows)), columns)
            waiting[side].write(groups, groups[rows], entries)
        due = np.flatnonzero(is_due)
        if not len(due):
            return None
        blocks = block_numbers(segments(encoded)[0].codes.astype(np.int64), times_us)
        numbers, first = np.unique(blocks[due], return_index=True)
        left, right = (self._side(table, side, due[sides[due] == side], blocks, numbers) for side in (LEFT, RIGHT))
        ends_us = times_us[due[first]] + 1
        return Groups(encoded.take(pa.array(due[first])), self.windows.starts(ends_us), ends_us, left, right)

    def _side(self, table: pa.Table, side: int, rows: Rows, blocks: Int64s, numbers: Int64s) -> SideGroups:
        columns = self.layout.columns_of(table, side, rows)
        return SideGroups.of(self.layout.sides[side], self.time_columns[side], columns, blocks[rows], numbers)
