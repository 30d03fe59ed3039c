"""The calls of a function, key by key: first its records, then its timers. Also collects outputs and handles failures.

If a failure ends the epoch (on-error: fail), calls run unguarded, and outputs are checked once per chunk. If a failing
record is left out instead, each call is checked separately, and a failed call is rolled back.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, repeat
from typing import Any, Protocol

import pyarrow as pa

from mixedmode.operators.classes import file_of
from mixedmode.operators.interface import TIME_COLUMN, AppendedRows, SideRows
from mixedmode.operators.process.broadcast import BroadcastRun
from mixedmode.operators.process.chunks import Chunk
from mixedmode.operators.process.codec import StateMismatchError
from mixedmode.operators.process.context import Context, Timers
from mixedmode.operators.process.failures import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_TAG,
    PASSED_THROUGH,
    SKIPPED_TAG,
    Call,
    OnError,
    dead_letter,
    function_error,
)
from mixedmode.operators.process.function import (
    AdaptedFunction,
    AnyFunction,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
)
from mixedmode.operators.process.records import python_records
from mixedmode.operators.process.rows import RowCollector, RowMismatchError, as_frame
from mixedmode.operators.process.timers import TimerQueue
from mixedmode.operators.process.turns import Turns
from mixedmode.operators.tables import column_of
from mixedmode.time import MIN_TIME_US, EpochTime

LOOK_RECORDS = 256  # number of records of one key after which the emitted rows are counted
SEAL_ROWS = 2**14  # most rows that are held as Python objects
EMIT_ROWS = 2**16  # number of rows in a table at which it is emitted
# In the last epoch every timer is due. A timer that always registers the next timer would never end.
LAST_TIMERS_MAX = 100_000

Feed = Iterator[Any]  #: (record, event time or None) each


class StepSettings(Protocol):
    """The settings of the step that calls depend on; ProcessOperator has them."""

    @property
    def operator_id(self) -> str:
        """The name of the step, for errors."""

    @property
    def record_fields(self) -> tuple[pa.Field, ...]:
        """The columns of a record."""

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the sorted tables: first the columns of a record, under other names, then further columns."""

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The columns of a row of the main output."""

    @property
    def function_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The side outputs, as {tag: columns}."""

    @property
    def on_error(self) -> OnError:
        """The handling of a record for which the function fails."""

    @property
    def has_event_time(self) -> bool:
        """True if records have event times."""


class Calls:
    """Call `function` for the keys of chunks, and collect its outputs."""

    def __init__(
        self,
        step: StepSettings,
        function: AnyFunction,
        turns: Turns,
        time: EpochTime,
        broadcast: BroadcastRun | None = None,
    ) -> None:
        self._step = step
        self._turns = turns
        self._time = time
        self._file = file_of(function)
        self._main = RowCollector(step.output_fields)
        self._sides = {tag: RowCollector(fields) for tag, fields in step.function_outputs.items()}
        self._side_keys: dict[str, list[Any]] = {
            tag: [] for tag in self._sides
        }  #: the key of each row of a side output
        self._rejected = RowCollector(DEAD_LETTER_FIELDS)
        self._outputs = [self._main, *self._sides.values()]
        adders = {tag: self._adder(tag) for tag in self._sides}
        self._context = Context(time, Timers(turns.event, turns.processing, self._may_register), adders)
        if broadcast is not None:
            self._context.broadcast = broadcast.rows_for(self._context)
        self._on_timer = function.on_timer
        self._take_timer = function.take_timer if isinstance(function, AdaptedFunction) else None
        self._uses_clock = function.attributes.uses_clock
        self._is_guarded = step.on_error != "fail"
        self._names = [field.name for field in step.record_fields]
        self._records: Callable[[Any, int], None] = self._guarded_records if self._is_guarded else self._plain_records
        self._look_records = LOOK_RECORDS
        self._add = self._main.add
        self._method: Callable[[Any, Context], Any]
        if isinstance(function, KeyedBatchProcessFunction):
            self._method, self._rows_as = function.process_rows, function.rows_as
            self._records = self._batch_records
            self._look_records = sys.maxsize
            self._add = self._main.add_frames
        elif isinstance(function, KeyedProcessFunction):
            self._method = function.process_element
        self._is_firing = False
        self._horizon_us = MIN_TIME_US  #: watermark or last event time of the key, whichever is greater
        self._timers_beyond = 0  #: number of timers after `_horizon_us` that on_timer has registered for the key
        self._keys: list[Any] = []  #: keys of the chunk
        self._first_mark = 0  #: index of the key of `_marks[0]`
        self._marks: list[int] = []  #: number of rows of the main output at the end of each key's turn

    def run(self, chunk: Chunk) -> Iterator[AppendedRows | SideRows]:
        """Run the turns of all keys of a chunk. Yield outputs that have many rows."""
        turns = self._turns
        turns.read(chunk)
        self._keys, self._first_mark = chunk.keys, 0
        try:
            yield from self._take_turns(chunk, self._feed(chunk))
            self._seal()
            turns.write()
        except StateMismatchError as error:
            raise self._error(error, Call("end of the key's turn", chunk.keys[error.index or 0])) from error
        yield from self.rows(EMIT_ROWS)

    def _take_turns(self, chunk: Chunk, feed: Any) -> Iterator[AppendedRows | SideRows]:
        # local names avoid attribute lookups per key, which dominate the time of short turns
        turns, context, records = self._turns, self._context, self._records
        key_state, event, processing = turns.key, turns.event, turns.processing
        is_simple = turns.is_simple and not self._is_guarded
        begins, ends, has_timers = chunk.begins, chunk.ends, bool(chunk.event_timers or chunk.processing_timers)
        rows, mark, look_records = self._main.rows, self._marks.append, self._look_records
        for index, (key, row, count) in enumerate(zip(chunk.keys, turns.rows, chunk.counts, strict=True)):
            if is_simple:
                key_state.row = row
            elif begins:
                turns.begin(index)
            context.current_key = key
            if has_timers:  # before the records, which may delete some
                _add_stored(event, chunk.event_timers.get(index))
                _add_stored(processing, chunk.processing_timers.get(index))
            context.timestamp = None
            while count > look_records:
                records(feed, look_records)
                yield from self._passed_on()
                count -= look_records  # noqa: PLW2901  # the rest
            if count:
                records(feed, count)
            if ends:
                if event.has_changed or processing.has_changed:
                    yield from self._fire()
                    turns.end_timers(chunk.stored[index])
                if not is_simple:
                    turns.end(index)
            mark(len(rows))
            if len(rows) >= SEAL_ROWS:
                yield from self._passed_on()

    def _passed_on(self) -> Iterator[AppendedRows | SideRows]:
        """Yield outputs in the middle of a chunk if they have many rows."""
        if sum(len(output.rows) for output in self._outputs) >= SEAL_ROWS:
            self._seal()
        yield from self.rows(EMIT_ROWS)

    def rows(self, rows_min: int) -> Iterator[AppendedRows | SideRows]:
        """Yield the sealed rows of each output that has at least `rows_min` of them."""
        if self._main.sealed_rows >= rows_min:
            yield AppendedRows(self._main.take())
        for tag, collector in self._sides.items():
            if collector.sealed_rows >= rows_min:
                yield SideRows(tag, collector.take())
        if self._rejected.sealed_rows >= rows_min:
            tag = DEAD_LETTER_TAG if self._step.on_error == "dead-letter" else SKIPPED_TAG
            yield SideRows(tag, self._rejected.take())

    # --- records ------------------------------------------------------------------------------------------------------

    def _feed(self, chunk: Chunk) -> Any:
        """Return the records of a chunk: an iterator of (record, time), or a `_TableFeed` for functions of tables."""
        columns = [column_of(chunk.records, each.name) for each in self._step.input_fields[: len(self._names)]]
        if self._records == self._batch_records:
            return _TableFeed(pa.table(columns, names=self._names))
        times = chunk.records.column(TIME_COLUMN).to_pylist() if self._step.has_event_time else repeat(None)
        return zip(python_records(columns, self._names), times, strict=False)

    def _plain_records(self, feed: Feed, count: int) -> None:
        context, process_element, add = self._context, self._method, self._add
        record = None
        try:
            for record, context.timestamp in islice(feed, count):
                result = process_element(record, context)
                if result is not None:
                    add(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            call = Call("process_element", context.current_key, record, context.timestamp)
            raise self._error(error, call) from error

    def _guarded_records(self, feed: Feed, count: int) -> None:
        for record, timestamp in islice(feed, count):
            self._context.timestamp = timestamp
            call = Call("process_element", self._context.current_key, record, timestamp)
            self._guarded(self._method, record, self._add, call)

    def _batch_records(self, feed: "_TableFeed", count: int) -> None:
        if self._main.rows:  # rows of timers; this call may emit tables, which come after these rows
            self._seal()
        rows = feed.take(count)
        call = Call("process_rows", self._context.current_key)
        self._call(self._method, as_frame(rows) if self._rows_as == "pandas" else rows, self._add, call)

    # --- timers -------------------------------------------------------------------------------------------------------

    def _fire(self) -> Iterator[AppendedRows | SideRows]:
        """Fire all due timers of the current key, including timers that are registered meanwhile."""
        context, turns = self._context, self._turns
        self._horizon_us = max(self._time.late_us, MIN_TIME_US if context.timestamp is None else context.timestamp)
        self._timers_beyond = 0
        context.current_watermark, self._is_firing = self._time.firing_us, True
        while (due := self._take_due(turns)) is not None:
            context.time_domain, context.timestamp = due
            if self._take_timer is not None:
                self._take_timer(due[1])
                turns.drop_saved()
            self._call(self._on_timer, due[1], self._main.add, Call("on_timer", context.current_key, None, due[1]))
            if len(self._main.rows) >= SEAL_ROWS:
                yield from self._passed_on()
        context.current_watermark, self._is_firing = self._time.late_us, False
        context.time_domain = context.timestamp = None

    @staticmethod
    def _take_due(turns: Turns) -> "tuple[Any, int] | None":
        time_us = turns.event.take_due()
        if time_us is not None:
            return "event", time_us
        time_us = turns.processing.take_due()
        return None if time_us is None else ("processing", time_us)

    def _may_register(self, queue: TimerQueue, time_us: int) -> bool:
        """Return whether a timer may be registered.

        When every timer fires, on_timer cannot register processing-time timers in the last epoch. It can register only
        a limited number of event-time timers. Raise RuntimeError beyond that limit, or without `uses_clock`.
        """
        if queue is self._turns.processing and not self._uses_clock:
            msg = (
                "a processing-time timer was registered, and the class does not say that it goes by the clock, so the "
                "timer would wait for the next record. Add `attributes = OperatorAttributes(uses_clock=True)` to the "
                "class (mixedmode.process)"
            )
            raise RuntimeError(msg)
        if not (self._is_firing and self._time.fires_everything):
            return True
        if queue is self._turns.processing:
            return not self._time.is_final
        self._timers_beyond += time_us > self._horizon_us
        if self._timers_beyond > LAST_TIMERS_MAX:
            msg = (
                "every timer fires now, as the input has ended or end-of-key-watermark is max, and on_timer goes on "
                f"registering timers: {LAST_TIMERS_MAX} for this key. "
                "Register no more when `context.current_watermark == MAX_WATERMARK` (mixedmode.process)"
            )
            raise RuntimeError(msg)
        return True

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, method: Callable[[Any, Context], Any], first: Any, add: Callable[[Any], None], call: Call) -> None:
        if self._is_guarded:
            self._guarded(method, first, add, call)
            return
        try:
            result = method(first, self._context)
            if result is not None:
                add(result)
        except PASSED_THROUGH:
            raise
        except Exception as error:
            raise self._error(error, call) from error

    def _guarded(
        self, method: Callable[[Any, Context], Any], first: Any, add: Callable[[Any], None], call: Call
    ) -> None:
        """Call `method`; if it fails, roll back its state changes and its outputs, and add a dead letter."""
        self._turns.save()
        marks = [(output, output.mark()) for output in self._outputs]
        try:
            result = method(first, self._context)
            if result is not None:
                add(result)
            for output, mark in marks:
                output.check(mark)
            self._turns.keep()
        except PASSED_THROUGH:
            raise
        except Exception as error:  # noqa: BLE001  # whatever the function raises
            self._turns.undo()
            for output, mark in marks:
                output.back_to(mark)
            letter = dead_letter(error, operator_id=self._step.operator_id, file=self._file, call=call)
            self._rejected.rows.append(letter)

    def _error(self, error: Exception, call: Call) -> Exception:
        return function_error(error, operator_id=self._step.operator_id, file=self._file, call=call)

    # --- outputs ------------------------------------------------------------------------------------------------------

    def _adder(self, tag: str) -> Callable[[Any], None]:
        rows, keys, owned = self._sides[tag].rows, self._side_keys[tag], self._sides[tag].owned

        def add(row: Any) -> None:
            if not isinstance(row, Mapping):
                msg = f"a row must be a mapping of field to value, and this one is a {type(row).__name__}: {row!r:.100}"
                raise TypeError(msg)
            rows.append(owned(row))  # a copy, because the function may change the row later
            keys.append(self._context.current_key)

        return add

    def _seal(self) -> None:
        """Convert all collected rows to tables."""
        try:
            self._main.seal()
        except RowMismatchError as error:
            index = bisect_right(self._marks, error.index or 0)
            raise self._error(error, Call("output", self._keys[self._first_mark + index])) from error
        for tag, collector in self._sides.items():
            try:
                collector.seal()
            except RowMismatchError as error:
                raise self._error(error, Call(f"output {tag!r}", self._side_keys[tag][error.index or 0])) from error
            self._side_keys[tag].clear()
        self._rejected.seal()
        self._first_mark += len(self._marks)
        self._marks.clear()


class _TableFeed:
    """The records of a chunk as one table; `take` returns the next records."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._position = 0

    def take(self, count: int) -> pa.Table:
        self._position += count
        return self._table.slice(self._position - count, count)


def _add_stored(queue: TimerQueue, times: list[int] | None) -> None:
    for time_us in times or ():
        queue.add_stored(time_us)
