"""The operator of an `over` step: each row with values of the rows of its key before it, in the order of event time.

The rows of a key are ordered by event time, then by the tie-break columns, then by the whole row. A row is emitted once
the watermark has passed its time, so no row before it can come. Until then it waits in the state. Late rows are dropped
and counted. Rows that are equal in event time and tie-break columns are peers; all of them are emitted in one epoch.

Rows are packed (operators/top/rows.py), ordered by time first, and the sorter orders them by key and time at once. So a
table may end within a key: what is kept of the last key is carried to the next table, and is written when the key has
ended. All rows of a key never have to be in memory, only its peers.

State:
    keys      key group | 0 | key                   one encoded row: the number of rows, the last rows that the columns
                                                    read one by one, and what each column keeps
    waiting   key group | 1 | time | packed row     number of such rows

Source: the OVER clause of SQL:2003. Flink has it for streams ("Over Aggregation"), Spark for batch only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.join.counts import counted_state, counts_of
from mixedmode.operators.join.waiting import WaitingWriter
from mixedmode.operators.over.columns import TIME, OverColumn, SortedRows
from mixedmode.operators.over.kept import Kept, KeptLayout
from mixedmode.operators.over.places import Places
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.fold import packed_table, whole_keys
from mixedmode.operators.top.rows import RowLayout, keys_of, parts_of, taken, without_prefix
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, leading_times
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table, take_rows
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.state.keys import PREFIX_BYTES

__all__ = ["KEYS", "WAITING", "OverOperator"]

KEYS, WAITING = 0, 1  #: state ids
_KEY_FIELDS = (pa.field("row", pa.large_binary()),)


@dataclass(frozen=True, slots=True)
class OverOperator(OperatorBase):
    """Emit each row with the columns of the step. Output: the key columns, the other columns of the input, `columns`.

    The first order column of the layout is the event time. The arguments of a batch are the columns of the row;
    `order_arguments` has the indices of the tie-break columns among them. `has_key`: if False, all rows have one key,
    and its column is no column of the output.
    """

    layout: RowLayout
    order_arguments: tuple[int, ...]
    columns: tuple[OverColumn, ...]
    has_key: bool = True

    @property
    def traits(self) -> OperatorTraits:
        """The watermark decides what is emitted. No row changes later."""
        return OperatorTraits(fires_by_watermark=True, state_uses_time=True, passes_event_time=True)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The state of each key, and the rows that wait."""
        return StateDescriptor(KEYS, "keys", _KEY_FIELDS), counted_state(WAITING, "waiting")

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """None: the row itself is the sorter's key."""
        return ()

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, the other columns of the input, and those that are computed."""
        return (*self.row_fields[self.hidden :], *(column.field for column in self.columns))

    @property
    def hidden(self) -> int:
        """The number of columns of the row that are not in the output."""
        return 0 if self.has_key else len(self.layout.key_schema.fields)

    @property
    def row_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the input, those of the key first. A column reads one of them by its index."""
        return (*self.layout.key_schema.fields, *self.layout.row_fields)

    @property
    def read(self) -> tuple[int, ...]:
        """The columns of the row that columns of the step read, by index."""
        return tuple(sorted({column.argument for column in self.columns if column.argument is not None}))

    @property
    def stored_columns(self) -> tuple[OverColumn, ...]:
        """The columns of the step in the order in which the state has them: by name, so a job may reorder them."""
        return tuple(sorted(self.columns, key=lambda column: column.name))

    @property
    def kept_layout(self) -> KeptLayout:
        """The layout of what is kept of a key."""
        back = {column.argument for column in self.columns if column.keeps_rows}
        history = {index: self.row_fields[index].type for index in self.read if index in back}
        span_us = max((column.span_us for column in self.columns if column.span_us is not None), default=None)
        return KeptLayout(
            max(column.rows_before for column in self.columns),
            history if span_us is None else {TIME: pa.int64(), **history},
            tuple(column.kept_types for column in self.stored_columns),
            span_us,
        )

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the packed rows of a batch. A row before the watermark is late."""
        times, columns, keys = batch.times_us, list(batch.arguments), list(batch.keys)
        assert times is not None, "the step's input has event time"
        late_rows = np.flatnonzero(times < late_us)
        if len(late_rows):
            kept = np.flatnonzero(times >= late_us)
            times, rows = times[kept], pa.array(kept)
            columns, keys = [column.take(rows) for column in columns], [key.take(rows) for key in keys]
        order = [pa.array(times, pa.int64()), *(columns[index] for index in self.order_arguments)]
        row = columns[: len(self.layout.row_fields)]
        return Folded(packed_table(self.layout, keys, order, row, max_parallelism=max_parallelism), late_rows)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the waiting rows that the watermark passes in this epoch."""
        for found in stored_in(context, WAITING, [context.time.passed_us]):
            counts = counts_of(found.values)
            packed = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES)
            entries = pa.table([pa.array(found.groups()), packed], names=[KEY_GROUP_COLUMN, KEY_COLUMN])
            is_plain = (counts == 1).all()
            yield sort_table(entries if is_plain else take_rows(entries, np.repeat(np.arange(len(counts)), counts)))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows]:
        """Yield the rows that are emitted. Write what is kept of the keys, and the rows that wait."""
        run = _Run(self, context)
        for table in whole_keys(tables, lambda held: held, orders_of):
            yield from run.process(table)
        run.finish()

    def times_of(self, packed: pa.LargeBinaryArray) -> Int64s:
        """Return the event times (n,) of packed rows."""
        parts = parts_of(packed)
        return leading_times(cut(parts.data, parts.key_ends, parts.key_ends + TIME_BYTES))


def orders_of(packed: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the encoded keys and order columns (n,) of packed rows."""
    parts = parts_of(packed)
    return cut(parts.data, parts.starts, parts.order_ends)


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: OverOperator, context: SubtaskContext) -> None:
        self._operator = operator
        self._time = context.time
        self._waiting = WaitingWriter(context.backend, WAITING, context.time.passed_us)
        self._keys = StateTable(operator.states[KEYS], context.backend)
        self._carried: Kept | None = None  #: of the last key so far, which the next table may continue

    def process(self, table: pa.Table) -> Iterator[AppendedRows]:
        """Process a sorted table, the first key of which may be the last one of the table before."""
        packed, groups = column_of(table, KEY_COLUMN), column_of(table, KEY_GROUP_COLUMN).to_numpy()
        times = self._operator.times_of(packed)
        is_due = self._time.has_passed(times)
        waits = np.flatnonzero(~is_due)
        entries = joined(encoded_times(times[waits]), packed.take(pa.array(waits)))
        self._waiting.write(groups, groups[waits], entries)
        due = np.flatnonzero(is_due)
        if len(due):
            yield self._emitted(groups[due], taken(packed, due))

    def finish(self) -> None:
        """Write what is left, after the last table."""
        self._waiting.finish()
        if self._carried is not None:
            self._write(self._carried)

    def _emitted(self, groups: npt.NDArray[np.uint16], packed: pa.LargeBinaryArray) -> AppendedRows:
        """Return the rows of packed rows, and keep what they leave of their keys."""
        operator, keys = self._operator, keys_of(packed)
        grouping, starts = segments(keys)
        before = self._before(groups[starts], taken(keys, starts))
        blocks, firsts = segments(orders_of(packed))
        row = [*operator.layout.unpack_keys(packed), *operator.layout.unpack_rows(packed)]
        read = {index: row[index] for index in operator.read}
        if before.layout.span_us is not None:
            read[TIME] = pa.array(operator.times_of(packed))
        rows = SortedRows(
            Places(grouping.codes.astype(np.int64), starts, before.rows, before.history.lengths),
            {index: before.history.joined(index, column) for index, column in read.items()},
            blocks.codes.astype(np.int64),
            np.append(firsts[1:], len(packed)) - 1,
        )
        results, own = dict[str, pa.Array](), list[list[pa.Array]]()
        for column, kept in zip(operator.stored_columns, before.own, strict=True):
            results[column.name], after = column.of(rows, kept)
            own.append(after)
        self._keep(before.after(rows, own))
        emitted = [*row[operator.hidden :], *(results[column.name] for column in operator.columns)]
        return AppendedRows(pa.table(emitted, names=[field.name for field in operator.output_fields]))

    def _before(self, groups: npt.NDArray[np.uint16], keys: pa.LargeBinaryArray) -> Kept:
        """Return what is kept of keys: of the first one it may be carried, of the others it is in the state.

        If the first key is another one than the carried one, that key has ended, and is written.
        """
        carried = self._carried
        if carried is not None and (carried.groups[0] != groups[0] or carried.keys[0] != keys[0]):
            self._write(carried)
            carried = None
        first = 0 if carried is None else 1
        layout = self._operator.kept_layout
        found, columns = self._keys.read(self._keys.stored_keys(groups[first:], keys.slice(first)))
        stored = layout.unpacked(groups[first:], keys.slice(first), found, columns[0])
        return stored if carried is None else carried.followed_by(stored)

    def _keep(self, kept: Kept) -> None:
        """Write what is kept of all keys but the last one, which the next table may continue."""
        last = len(kept.keys) - 1
        self._write(kept.slice(0, last))
        self._carried = kept.slice(last, last + 1)

    def _write(self, kept: Kept) -> None:
        if len(kept.keys):
            self._keys.write(self._keys.stored_keys(kept.groups, kept.keys), [kept.packed()])
