"""Aggregates over every `count` records of a key: the window is emitted and cleared at each `count`-th record.

Records of a key are counted epoch by epoch, and within an epoch in event-time order. Records with equal event time are
ordered by the values that the aggregates keep of them. So a repeated epoch makes the same windows. No record is late. A
window that is not full when the input ends is not emitted (Flink's count trigger).

State layout: stored key = key group | 0 | key. The value holds the number of windows emitted so far; the number of
records in the open window; their least and greatest event time; and the registers. Without an open window, the columns
of the window are NULL. The state is kept as long as the job, because the number of the next window is part of the
output.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, decode_keys
from mixedmode.operators.aggregate import Aggregator
from mixedmode.operators.aggregate.reduce import Grouping, rank_bytes
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Values
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorBase,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.tables import column_of
from mixedmode.operators.window.fold import fold_records, times_of
from mixedmode.operators.window.keys import Int64s, stored_schema
from mixedmode.operators.window.output import WINDOW_BOUNDS, WINDOW_NUMBER, instants
from mixedmode.operators.window.partials import Bools, take_all
from mixedmode.state import StateDescriptor, StateTable
from mixedmode.time import checked_times

_COUNTERS = tuple(pa.field(name, pa.int64()) for name in ("_windows", "_records", "_least_us", "_greatest_us"))


@dataclass(frozen=True, slots=True)
class CountWindowAggregateOperator(OperatorBase):
    """Aggregate count windows. Output: key, window_number, window_start, window_end, results.

    `key_schema` is None for un-keyed input. `window_number` counts the windows of a key from 0. The bounds are the
    least event time, and the greatest event time plus one microsecond. The output is append-only.
    """

    aggregator: Aggregator
    key_schema: KeySchema | None
    count: int

    combine = None  # the operator needs every single record, in order
    traits = OperatorTraits()

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The open window of each key."""
        return (StateDescriptor(0, "counted", (*_COUNTERS, *self.aggregator.state_fields)),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """One partial per record: the input columns other than key group, key and time."""
        return self.aggregator.state_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns, and the number of the window."""
        return (*(self.key_schema.fields if self.key_schema else ()), WINDOW_NUMBER)

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, the number and bounds of the window, and the results."""
        return (*self.output_key, *WINDOW_BOUNDS, *self.aggregator.result_fields)

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return one partial per record. Raises InvalidJobError for an event time at which no window can end."""
        del late_us  # a count window does not end at a time, so no record is late for it
        checked_times(times_of(batch))
        folded = fold_records(batch, self.key_schema, self.aggregator, max_parallelism=max_parallelism)
        names = [KEY_GROUP_COLUMN, KEY_COLUMN, TIME_COLUMN, *(field.name for field in self.input_fields)]
        columns = [pa.array(folded.groups), folded.keys, pa.array(folded.ends), *folded.registers]
        return Folded(pa.table(columns, names=names))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows]:
        """Sorted partials, whole keys: yields the windows that are full; writes the others."""
        state = StateTable(self.states[0], context.backend)
        for table in tables:
            if table.num_rows:
                yield from self._process(table.combine_chunks(), state)

    def _process(self, table: pa.Table, state: StateTable) -> Iterator[AppendedRows]:
        key_of_row, first_rows = segments(column_of(table, KEY_COLUMN))
        first = pa.array(first_rows)
        keys = column_of(table, KEY_COLUMN).take(first)
        stored_keys = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).take(first).to_numpy(), keys)
        before = _Open.of(len(keys), *state.read(stored_keys))
        windows = self._windows(table, key_of_row.codes.astype(np.int64), first_rows, before)
        is_full = windows.records == self.count
        if is_full.any():
            yield AppendedRows(self._rows(keys, before, windows, np.flatnonzero(is_full)))
        state.write(stored_keys, self._after(before, windows, is_full))

    def _windows(
        self, table: pa.Table, key_of_row: Int64s, first_rows: npt.NDArray[np.intp], before: "_Open"
    ) -> "_Windows":
        """Return all windows of a table that have a new record, with the stored open window merged into the first."""
        times = column_of(table, TIME_COLUMN).to_numpy()
        registers = [column_of(table, field.name) for field in self.input_fields]
        registers = _settled(key_of_row, times, registers)
        # With count 3 and 2 stored records, the records of a key fall into the windows 0, 1, 1, 1, 2, ...
        nth = (np.arange(len(times)) - first_rows[key_of_row] + before.records[key_of_row]) // self.count
        begins = np.ones(len(times), np.bool_)
        begins[1:] = (key_of_row[1:] != key_of_row[:-1]) | (nth[1:] != nth[:-1])
        first = np.flatnonzero(begins)
        key, nth, window_of_row = key_of_row[first], nth[first], np.cumsum(begins) - 1
        first_window = np.searchsorted(key, before.keys)  # of the keys with an open window: this window continues
        records = np.bincount(window_of_row, minlength=len(first))
        records[first_window] += before.records[before.keys]
        least, greatest = np.minimum.reduceat(times, first), np.maximum.reduceat(times, first)
        least[first_window] = np.minimum(least[first_window], before.least_us)
        greatest[first_window] = np.maximum(greatest[first_window], before.greatest_us)
        grouping = Grouping(np.concatenate([first_window, window_of_row]), len(first))
        both = [pa.concat_arrays(pair) for pair in zip(before.registers, registers, strict=True)]
        return _Windows(key, nth, records, least, greatest, self.aggregator.merge(grouping, both))

    def _rows(self, keys: pa.Array, before: "_Open", windows: "_Windows", rows: npt.NDArray[np.intp]) -> pa.Table:
        key = windows.key[rows]
        user_key = decode_keys(keys.take(pa.array(key)), stored_schema(self.key_schema)) if self.key_schema else []
        columns = [
            *user_key,
            pa.array(before.windows[key] + windows.nth[rows]),
            instants(windows.least_us[rows]),
            instants(windows.greatest_us[rows] + 1),
            *self.aggregator.results(take_all(windows.registers, rows)),
        ]
        return pa.table(columns, names=[field.name for field in self.output_fields])

    def _after(self, before: "_Open", windows: "_Windows", is_full: Bools) -> list[pa.Array]:
        """Return the state of all keys: the last window of each key, unless it is full."""
        last = np.append(np.flatnonzero(windows.key[1:] != windows.key[:-1]), len(windows.key) - 1)
        given = before.windows + windows.nth[last] + is_full[last]
        open_ = np.where(is_full[last], -1, last)
        records = np.where(is_full[last], 0, windows.records[last])
        bounds = take_all([pa.array(windows.least_us), pa.array(windows.greatest_us)], open_)
        return [pa.array(given), pa.array(records), *bounds, *take_all(windows.registers, open_)]


@dataclass(frozen=True, slots=True)
class _Open:
    """The stored state of a table's keys: counters of all keys (k,), and the open windows of the keys `keys` (m,)."""

    windows: Int64s
    records: Int64s
    keys: npt.NDArray[np.intp]
    least_us: Int64s
    greatest_us: Int64s
    registers: list[pa.Array]

    @classmethod
    def of(cls, count: int, found: npt.NDArray[np.intp], columns: Sequence[pa.Array]) -> "_Open":
        """Return the state of `count` keys; `found` are the keys that have state, and `columns` their state."""
        windows, records = np.zeros(count, np.int64), np.zeros(count, np.int64)
        windows[found], records[found] = columns[0].to_numpy(), columns[1].to_numpy()
        is_open = records[found] > 0
        least, greatest, *registers = take_all(columns[2:], np.flatnonzero(is_open))
        return cls(windows, records, found[is_open], least.to_numpy(), greatest.to_numpy(), registers)


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of a table in order, (n,) each. `key`: index of the key; `nth`: index of the window in its key."""

    key: Int64s
    nth: Int64s
    records: Int64s
    least_us: Int64s
    greatest_us: Int64s
    registers: list[pa.Array]


def _settled(key_of_row: Int64s, times: Int64s, registers: list[pa.Array]) -> list[pa.Array]:
    """Order records with equal key and time by their registers, so that their order of arrival does not matter."""
    is_tied = np.zeros(len(times), np.bool_)
    is_tied[1:] = (key_of_row[1:] == key_of_row[:-1]) & (times[1:] == times[:-1])
    if not is_tied.any():
        return registers
    run = np.cumsum(~is_tied)
    is_tied[:-1] |= is_tied[1:]
    rows = np.flatnonzero(is_tied)
    order = np.arange(len(times))
    ranks = [part for column in take_all(registers, rows) for part in _ranks(column)]
    order[rows] = rows[np.lexsort((*ranks, run[rows]))]
    return take_all(registers, order)


def _ranks(column: pa.Array) -> Iterator[npt.NDArray[np.generic]]:
    """Yield sort keys for `np.lexsort`: numbers that order the values; then, if needed, a mask of non-NULL values."""
    values = Values.from_arrow(column)
    data = rank_bytes(values.data)[0] if isinstance(values.data, pa.Array) else values.data.view(np.int64)
    if values.valid is not None:
        yield np.where(values.valid, data, 0)
        yield values.valid
    else:
        yield data
