"""The operator of a `deduplicate` step that keeps the first row of each key by event time, or any row.

first   The rows of a key are ordered by event time, then by the tie-break columns, then by the whole row. A row is
        emitted once the watermark has passed its time, so no earlier row can come. Until then it waits in the state.
any     A row of a key that has no row yet is emitted at once. If one epoch has several such rows, the first in the same
        order is emitted. So a repeated epoch emits the same rows.

Both emit each row once and never change it. With `within_us`, a row is a duplicate only if its time is less than that
after the emitted row of its key. The key is forgotten when the watermark is that far, because rows before the watermark
are late. Late rows are dropped and counted.

Rows are packed (operators/top/rows.py), ordered by time first. The sorter keeps only the first row of a key, or of a
key and time with `within_us`; the map side drops most of the others before.

State layout, with the time in the encoding of operators/window/keys.py:
    emitted   key group | 0 | key                  value = time of the emitted row
    waiting   key group | 1 | time | packed row    value = version u8; only of `first`: rows that the watermark has not
                                                   passed
    expiries  key group | 2 | time | key           value = version u8; only with `within_us`: times of emitted rows
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys.rows import cut
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.deduplicate.picks import picked
from mixedmode.operators.deduplicate.times import TimesWriter
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
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.candidates import candidates
from mixedmode.operators.top.fold import packed_table, whole_keys
from mixedmode.operators.top.rows import RowLayout, joined_with_lengths, keys_of, parts_of, taken, without_prefix
from mixedmode.operators.window.keys import TIME_BYTES, encoded_times, joined, leading_times
from mixedmode.operators.window.stored import StoredRows, stored_in
from mixedmode.sort import Combine, sort_table, take_rows
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.state.arrow_bytes import values_at
from mixedmode.state.keys import PREFIX_BYTES
from mixedmode.time import EpochTime, checked_times, shifted_us

_EMITTED, _WAITING, _EXPIRIES = 0, 1, 2  #: state ids
_NO_ROWS = np.empty(0, np.intp)
Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class DeduplicateOperator(OperatorBase):
    """Emit one row per key. Output: the key columns, then the other columns of the input.

    `waits`: keep the first row by event time, else any. `has_event_time`: the first order column of the layout is the
    event time. The arguments of a batch are the columns of the row; `order_arguments` has the indices of the
    tie-break columns among them.
    """

    layout: RowLayout
    order_arguments: tuple[int, ...]
    waits: bool
    within_us: int | None
    has_event_time: bool

    def __post_init__(self) -> None:
        assert self.has_event_time or not self.goes_by_watermark, "the first row and `within` go by event time"

    @property
    def goes_by_watermark(self) -> bool:
        """True if the watermark decides what is emitted, and which rows are late."""
        return self.waits or self.within_us is not None

    @property
    def traits(self) -> OperatorTraits:
        """The operator never changes a row that it has emitted."""
        by_watermark = self.goes_by_watermark
        return OperatorTraits(fires_by_watermark=by_watermark, state_uses_time=by_watermark, passes_event_time=True)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The keys that have their row, the rows that wait, and the times at which keys are forgotten."""
        emitted = StateDescriptor(_EMITTED, "emitted", (pa.field("time", pa.int64()),))
        waiting = [StateDescriptor(_WAITING, "waiting", (), is_read_by_key=False)] if self.waits else []
        expiries = (
            [StateDescriptor(_EXPIRIES, "expiries", (), is_read_by_key=False)] if self.within_us is not None else []
        )
        return (emitted, *waiting, *expiries)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """None: the row itself is the sorter's key."""
        return ()

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, then the other columns."""
        return (*self.layout.key_schema.fields, *self.layout.row_fields)

    @property
    def combine(self) -> Combine | None:
        """The function that keeps the first row of a key, or of a key and time."""
        return self._combined

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the packed rows of a batch that may be the first of their keys. A row before the watermark is late.

        Raises InvalidJobError for an event time so far from now that `within` could not be added to it.
        """
        times, columns, keys, late_rows = batch.times_us, list(batch.arguments), list(batch.keys), _NO_ROWS
        if self.goes_by_watermark:
            assert times is not None, "the step's input has event time"
            if self.within_us is not None:
                checked_times(times)
            late_rows = np.flatnonzero(times < late_us)
            if len(late_rows):
                kept = np.flatnonzero(times >= late_us)
                times, rows = times[kept], pa.array(kept)
                columns, keys = [c.take(rows) for c in columns], [k.take(rows) for k in keys]
        order = [columns[index] for index in self.order_arguments]
        if self.has_event_time:
            order = [pa.array(times, pa.int64()), *order]
        drops_rows = True
        if order and self.within_us is None:
            found = candidates(keys, order[0], self.layout.order[0], 1)
            drops_rows = found.has_more
            if found.rows is not None:
                numbers = pa.array(found.rows)
                keys, order, columns = ([c.take(numbers) for c in some] for some in (keys, order, columns))
        row = columns[: len(self.layout.row_fields)]
        table = packed_table(self.layout, keys, order, row, max_parallelism=max_parallelism)
        return Folded(self._combined(sort_table(table)) if drops_rows else table, late_rows)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the waiting rows that the watermark passes in this epoch, and the keys that are forgotten in it."""
        if self.waits:
            for found in stored_in(context, _WAITING, [context.time.passed_us]):
                yield _table(found, without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES))
        if self.within_us is not None:
            for found in stored_in(context, _EXPIRIES, [_forgotten(context.time, self.within_us)]):
                # the packed row has a key and a time, and no columns: it is a duplicate of the row that was emitted
                stored = without_prefix(found.keys, PREFIX_BYTES)
                keys = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES)
                yield _table(found, joined_with_lengths(keys, [encoded_times(leading_times(stored))], []))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows]:
        """Yield the rows that are emitted, and write which keys have one, and which rows wait."""
        run = _Run(self, context)
        for table in whole_keys(tables, self._combined):
            yield from run.process(table)
        run.finish()

    def times_of(self, packed: pa.LargeBinaryArray) -> Int64s:
        """Return the event times (n,) of packed rows; zeros without event time."""
        if not self.has_event_time:
            return np.zeros(len(packed), np.int64)
        parts = parts_of(packed)
        return leading_times(cut(parts.data, parts.key_ends, parts.key_ends + TIME_BYTES))

    def _combined(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        parts = parts_of(column_of(table, KEY_COLUMN))
        bytes_more = 0 if self.within_us is None else TIME_BYTES
        _, first_rows = segments(cut(parts.data, parts.starts, parts.key_ends + bytes_more))
        return table if len(first_rows) == table.num_rows else take_rows(table, first_rows)


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: DeduplicateOperator, context: SubtaskContext) -> None:
        self._operator = operator
        self._time = context.time
        self._within_us = operator.within_us
        self._emitted = StateTable(operator.states[0], context.backend)
        self._waiting = TimesWriter(context.backend, _WAITING, context.time.passed_us)
        expiring = _forgotten(context.time, operator.within_us or 0)
        self._expiries = TimesWriter(context.backend, _EXPIRIES, expiring)

    def process(self, table: pa.Table) -> Iterator[AppendedRows]:
        """Process a sorted table of whole keys."""
        operator, packed = self._operator, column_of(table, KEY_COLUMN)
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        keys = keys_of(packed)
        grouping, first_rows = segments(keys)
        codes, times, keys = grouping.codes.astype(np.int64), operator.times_of(packed), taken(keys, first_rows)
        stored = self._emitted.stored_keys(groups[first_rows], keys)
        known, columns = self._emitted.read(stored)
        known_us = columns[0].to_numpy()
        is_due = self._is_due(times)
        due = np.flatnonzero(is_due)
        is_picked = picked(codes[due], times[due], len(keys), known, known_us, self._within_us)
        rows = due[is_picked]
        if len(rows):
            yield self._rows(taken(packed, rows))
        last = _Last.of(len(keys), known, known_us).with_picks(codes[rows], times[rows])
        if operator.waits:
            waiting = np.flatnonzero(~is_due & ~last.makes_duplicate(codes, times, self._within_us))
            stored_rows = joined(encoded_times(times[waiting]), packed.take(pa.array(waiting)))
            self._waiting.write(groups, groups[waiting], stored_rows)
        self._write_emitted(stored, last, np.isin(np.arange(len(keys)), known), groups[first_rows], keys)

    def finish(self) -> None:
        """Write what is left, after the last table."""
        if self._operator.waits:
            self._waiting.finish()
        if self._within_us is not None:
            self._expiries.finish()

    def _is_due(self, times: Int64s) -> Bools:
        """Return (n,) True for rows that no earlier row can precede any more."""
        return self._time.has_passed(times) if self._operator.waits else np.ones(len(times), np.bool_)

    def _rows(self, packed: pa.LargeBinaryArray) -> AppendedRows:
        layout = self._operator.layout
        columns = [*layout.unpack_keys(packed), *layout.unpack_rows(packed)]
        return AppendedRows(pa.table(columns, names=[field.name for field in self._operator.output_fields]))

    def _write_emitted(
        self, stored: Sequence[bytes], last: "_Last", was_known: Bools, groups: Groups, keys: pa.LargeBinaryArray
    ) -> None:
        """Write the keys that have a new row, and delete those that are forgotten."""
        if self._within_us is None:
            touched, is_forgotten = np.flatnonzero(last.is_new), np.zeros(len(stored), np.bool_)
        else:
            is_forgotten = last.has_row & (last.times_us + self._within_us <= self._time.firing_us)
            touched = np.flatnonzero(np.where(is_forgotten, was_known, last.is_new))
            expiring = np.flatnonzero(last.is_new & ~is_forgotten)
            times = joined(encoded_times(last.times_us[expiring]), keys.take(pa.array(expiring)))
            self._expiries.write(groups, groups[expiring], times)
        deleted = np.flatnonzero(is_forgotten[touched]).tolist()
        self._emitted.write(values_at(stored, touched), [pa.array(last.times_us[touched])], deleted=deleted)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last emitted row of each key of a table, (keys,) each: is there one, its time, is it of this epoch."""

    has_row: Bools
    times_us: Int64s
    is_new: Bools

    @classmethod
    def of(cls, size: int, known: npt.NDArray[np.intp], known_us: Int64s) -> "_Last":
        has_row, times_us = np.zeros(size, np.bool_), np.zeros(size, np.int64)
        has_row[known], times_us[known] = True, known_us
        return cls(has_row, times_us, np.zeros(size, np.bool_))

    def with_picks(self, codes: Int64s, times_us: Int64s) -> "_Last":
        """Return the last rows after these picks, which are sorted by key and time."""
        has_row, latest, is_new = self.has_row.copy(), self.times_us.copy(), self.is_new.copy()
        has_row[codes], is_new[codes] = True, True
        latest[codes] = times_us  # of equal codes, the last assignment counts
        return _Last(has_row, latest, is_new)

    def makes_duplicate(self, codes: Int64s, times_us: Int64s, within_us: int | None) -> Bools:
        """Return (n,) True for rows that are duplicates of the last row of their key."""
        has_row = self.has_row[codes]
        return has_row if within_us is None else has_row & (times_us < self.times_us[codes] + within_us)


def _forgotten(time: EpochTime, within_us: int) -> tuple[int, int]:
    """Return (after, up to] of the times of emitted rows whose keys are forgotten in this epoch."""
    return shifted_us(time.late_us, -within_us), shifted_us(time.firing_us, -within_us)


def _table(found: StoredRows, packed: pa.LargeBinaryArray) -> pa.Table:
    return sort_table(pa.table([pa.array(found.groups()), packed], names=[KEY_GROUP_COLUMN, KEY_COLUMN]))
