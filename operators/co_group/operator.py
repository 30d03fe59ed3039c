"""The operator of a `co-group` step: the rows of both inputs of a key and window come as two tables to one call.

A row waits in the state for the end of each of its windows. The time of a waiting row is the last microsecond of its
window: once the watermark has passed it, no row of the window can come any more. So the state is that of rows of a join
that wait (operators/join/waiting.py), and is bounded by the watermark. A window is emitted once, with all of its rows,
whatever epochs they came in.

Source: FLIP-331 (EndOfStreamWindows and coGroup on sorted inputs).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.segments import segments
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.classes import file_of
from mixedmode.operators.co_group.function import CoGroupContext, CoGroupFunction, CoGroupReference
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
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.join.counts import counted_state
from mixedmode.operators.join.layout import LEFT, RIGHT, Rows
from mixedmode.operators.join.versions import block_numbers
from mixedmode.operators.join.waiting import WaitingWriter, waiting_entries, waiting_tables
from mixedmode.operators.process.chunks import python_keys
from mixedmode.operators.process.failures import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_TAG,
    PASSED_THROUGH,
    SKIPPED_TAG,
    Call,
    OnError,
    dead_letter,
    line_of,
    short_json,
    shown_error,
)
from mixedmode.operators.process.records import python_records
from mixedmode.operators.process.rows import RowCollector, RowMismatchError
from mixedmode.operators.tables import column_of
from mixedmode.operators.top.rows import encoded_rows
from mixedmode.operators.window.output import WINDOW_BOUNDS, instants
from mixedmode.state import StateDescriptor
from mixedmode.time import TimeWindows

__all__ = ["CoGroupOperator"]

EMIT_ROWS = 2**16  # number of rows at which a table is emitted


@dataclass(frozen=True, slots=True)
class CoGroupOperator(JoinBase):
    """Calls `function` for each key and window. Implements operators.interface.KeyedOperator.

    time_columns: the event-time column of each input, by index. function_fields: the columns of the function's rows.
    on_error: what happens to the rows of a key and window for which the function fails.
    """

    operator_id: str
    windows: TimeWindows
    time_columns: tuple[int, int]
    function: CoGroupReference
    function_fields: tuple[pa.Field, ...]
    on_error: OnError = "fail"

    @property
    def traits(self) -> OperatorTraits:
        """The watermark ends windows, and each is emitted once."""
        return OperatorTraits(emits_windows=True, fires_by_watermark=True, state_uses_time=True)

    @property
    def attributes(self) -> OperatorAttributes:  # type: ignore[override]  # a constant of other joins
        """A row is in several windows if they overlap."""
        return OperatorAttributes(rows_per_record=self.windows.windows_per_record)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of each side that wait, once for each of their windows."""
        return (counted_state(LEFT, "waiting left"), counted_state(RIGHT, "waiting right"))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The bounds of the window, the key, and the columns of the function's rows."""
        return (*WINDOW_BOUNDS, *self.layout.key_schema.fields, *self.function_fields)

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The rows for which the function failed, if `on_error` is `dead-letter`."""
        return {DEAD_LETTER_TAG: DEAD_LETTER_FIELDS} if self.on_error == "dead-letter" else {}

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
        run = _Run(self, self.function.create(), context)
        run.guarded("open")
        try:
            for table in tables:
                yield from run.process(table)
            yield from run.rows(1)
            run.finish()
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                run.function.close()
            raise
        run.guarded("close")


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of a side whose window ends, sorted by block: the first row of each block, and the end of the last."""

    table: pa.Table
    bounds: Rows


class _Run:
    """The processing of one subtask in one epoch."""

    def __init__(self, operator: CoGroupOperator, function: CoGroupFunction, context: SubtaskContext) -> None:
        self.function = function
        self._operator = operator
        self._file = file_of(function)
        self._layout = operator.layout
        self._time = context.time
        self._waiting = [WaitingWriter(context.backend, side, context.time.passed_us) for side in (LEFT, RIGHT)]
        self._emitted = RowCollector(operator.function_fields)
        self._rejected = RowCollector(DEAD_LETTER_FIELDS)
        self._groups: list[tuple[list[pa.Array], Int64s]] = []  #: columns of the groups, number of rows of each

    def process(self, table: pa.Table) -> Iterator[AppendedRows | SideRows]:
        """Process a sorted table of whole keys."""
        groups = column_of(table, KEY_GROUP_COLUMN).to_numpy()
        times_us = column_of(table, TIME_COLUMN).to_numpy()
        sides = column_of(table, SIDE_COLUMN).to_numpy()
        encoded = column_of(table, KEY_COLUMN)
        is_due = self._time.has_passed(times_us)
        for side in (LEFT, RIGHT):
            rows = np.flatnonzero(~is_due & (sides == side))
            columns = self._layout.columns_of(table, side, rows)
            waiting = waiting_entries(self._layout, side, times_us[rows], encoded.take(pa.array(rows)), columns)
            self._waiting[side].write(groups, groups[rows], waiting)
        due = np.flatnonzero(is_due)
        if not len(due):
            return
        blocks = block_numbers(segments(encoded)[0].codes.astype(np.int64), times_us)
        numbers, first = np.unique(blocks[due], return_index=True)
        left, right = (self._side(table, side, due[sides[due] == side], blocks, numbers) for side in (LEFT, RIGHT))
        yield from self._call(encoded.take(pa.array(due[first])), times_us[due[first]] + 1, left, right)

    def rows(self, rows_min: int) -> Iterator[AppendedRows | SideRows]:
        """Yield the rows that the function has emitted, and those that failed, if there are at least `rows_min`."""
        if self._rejected.sealed_rows >= rows_min:
            tag = DEAD_LETTER_TAG if self._operator.on_error == "dead-letter" else SKIPPED_TAG
            yield SideRows(tag, self._rejected.take())
        if self._emitted.sealed_rows < rows_min:
            return
        own = self._emitted.take()
        columns = [
            pa.concat_arrays(parts)
            for parts in zip(
                *([column.take(pa.array(_repeated(counts))) for column in found] for found, counts in self._groups),
                strict=True,
            )
        ]
        self._groups.clear()
        schema = pa.schema(self._operator.output_fields)
        yield AppendedRows(pa.table([*columns, *own.columns], schema=schema))

    def finish(self) -> None:
        """Write what is left, after the last table."""
        for waiting in self._waiting:
            waiting.finish()

    def guarded(self, method: str) -> None:
        """Call `open` or `close`. Raise InvalidJobError if it fails."""
        try:
            getattr(self.function, method)()
        except Exception as error:
            raise self._failure(error, f"method={method}") from error

    def _side(self, table: pa.Table, side: int, rows: Rows, blocks: Int64s, numbers: Int64s) -> _Side:
        """Return the rows of a side, those of a block in the order of event time, then of the whole row."""
        fields = self._layout.sides[side]
        columns = self._layout.columns_of(table, side, rows)
        order = pc.sort_indices(
            pa.table(
                [pa.array(blocks[rows]), columns[self._operator.time_columns[side]], encoded_rows(columns, fields)],
                names=["block", "time", "row"],
            ),
            sort_keys=[(name, "ascending") for name in ("block", "time", "row")],
        )
        sorted_blocks = blocks[rows][order.to_numpy()]
        bounds = np.append(np.searchsorted(sorted_blocks, numbers), len(rows))
        return _Side(pa.table([column.take(order) for column in columns], schema=pa.schema(fields)), bounds)

    def _call(self, encoded: pa.Array, ends_us: Int64s, left: _Side, right: _Side) -> Iterator[AppendedRows | SideRows]:
        """Call the function for each group (n,): its encoded key, the end of its window, its rows."""
        starts_us = self._operator.windows.starts(ends_us)
        keys = python_keys(encoded, self._layout.key_schema)
        bounds = [instants(starts_us), instants(ends_us), *decode_keys(encoded, self._layout.key_schema)]
        counts = np.zeros(len(keys), np.int64)
        done = 0
        for number, key in enumerate(keys):
            before = self._emitted.sealed_rows
            context = CoGroupContext(key, int(starts_us[number]), int(ends_us[number]))
            self._call_group(context, _group(left, number), _group(right, number))
            counts[number] = self._emitted.sealed_rows - before
            if max(self._emitted.sealed_rows, self._rejected.sealed_rows) >= EMIT_ROWS:
                self._add_groups(bounds, counts, done, number + 1)
                done = number + 1
                yield from self.rows(1)
        self._add_groups(bounds, counts, done, len(keys))

    def _add_groups(self, bounds: list[pa.Array], counts: Int64s, start: int, end: int) -> None:
        self._groups.append(([column.slice(start, end - start) for column in bounds], counts[start:end]))

    def _call_group(self, context: CoGroupContext, left: pa.Table, right: pa.Table) -> None:
        mark = self._emitted.mark()
        try:
            result = self.function.co_group(left, right, context)
            if result is not None:
                self._emitted.add_frames(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            if self._operator.on_error == "fail":
                start, end = instants(np.array([context.window_start, context.window_end])).to_pylist()
                values = f"method=co_group, key={short_json(context.current_key)}, window={start} to {end}"
                raise self._failure(error, values) from error
            self._emitted.rows.clear()
            self._emitted.back_to(mark)
            self._reject(error, context, left, right)

    def _reject(self, error: Exception, context: CoGroupContext, left: pa.Table, right: pa.Table) -> None:
        """Add the rows of a group for which the function failed, those of the left first."""
        for side, table in ((LEFT, left), (RIGHT, right)):
            times_us = table.column(self._operator.time_columns[side]).cast(pa.int64()).to_pylist()
            records = python_records([column.combine_chunks() for column in table.columns], table.column_names)
            for record, time_us in zip(records, times_us, strict=True):
                call = Call("co_group", context.current_key, record, time_us)
                letter = dead_letter(error, operator_id=self._operator.operator_id, file=self._file, call=call)
                self._rejected.add(letter)
        self._rejected.seal()

    def _failure(self, error: Exception, values: str) -> InvalidJobError:
        if isinstance(error, RowMismatchError):
            what, at = f"what the co-group function gave does not match the step's output: {error}", ""
        else:
            what = f"the co-group function raised {shown_error(error)}"
            at = f", at={line_of(error, self._file)}"
        msg = (
            f"{what}. Nothing of this epoch is committed. Correct the function, or set the step's `on-error` to skip "
            f"or dead-letter, and start again. operator={self._operator.operator_id}, {values}{at}"
        )
        return InvalidJobError(msg)


def _group(side: _Side, number: int) -> pa.Table:
    start, end = int(side.bounds[number]), int(side.bounds[number + 1])
    return side.table.slice(start, end - start)


def _repeated(counts: Int64s) -> Int64s:
    return np.repeat(np.arange(len(counts)), counts)
