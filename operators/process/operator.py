"""The operator of a `process` step: it calls a user's function with the records and timers of each key.

The operator works in turns of keys. A turn first handles all records of the key in the epoch, in event-time order. Then
it fires the due timers in time order, including timers that are registered during the turn. In the backlog, one turn
covers all of a key's data up to the end-of-key watermark. Live, one turn covers one epoch. The code is the same.

Source: FLIP-327 and FLIP-140 (end of a key), Flink's KeyedProcessOperator.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.classes import ClassSource, file_of
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorAttributes,
    OperatorBase,
    OperatorTraits,
    SideRows,
    SubtaskContext,
)
from mixedmode.operators.process.broadcast import VERSION_FIELD, BroadcastRun, Broadcasts, late_rows, time_behind
from mixedmode.operators.process.calls import Calls
from mixedmode.operators.process.chunks import chunks_of
from mixedmode.operators.process.due import KEYS, KIND_COLUMN, KIND_TYPE, RECORD, due_tables
from mixedmode.operators.process.failures import (
    DEAD_LETTER_FIELDS,
    DEAD_LETTER_TAG,
    SKIPPED_TAG,
    OnError,
    lifecycle_error,
)
from mixedmode.operators.process.function import (
    AdaptedFunction,
    AnyFunction,
    KeyedBatchProcessFunction,
    OpenContext,
    RecordAttributes,
)
from mixedmode.operators.process.maps import MAP_STATE_ID
from mixedmode.operators.process.states import State
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS
from mixedmode.operators.process.turns import Turns
from mixedmode.state import StateDescriptor
from mixedmode.time import EpochTime

_BYTES = (pa.field("value", pa.large_binary()),)


@dataclass(frozen=True, slots=True)
class ProcessOperator(OperatorBase):
    """Calls `function` for each key. Implements operators.interface.KeyedOperator.

    record_fields: the columns of a record, in the order of Batch.arguments.
    output_fields: the columns of a row of the main output.
    function_outputs: {tag: columns} of the side outputs that the function may use.
    on_error: the handling of a record for which the function fails.
    has_event_time: True if batches have times; otherwise the records of a key come in no defined order.
    output_event_time: the column of the main output with the event time of its rows, if there is one.
    broadcasts: the inputs whose rows every subtask has; None if there are none.
    """

    operator_id: str
    function: ClassSource[AnyFunction]
    key_schema: KeySchema
    record_fields: tuple[pa.Field, ...]
    output_fields: tuple[pa.Field, ...]
    function_outputs: Mapping[str, tuple[pa.Field, ...]] = field(default_factory=dict)
    on_error: OnError = "fail"
    has_event_time: bool = True
    output_event_time: str | None = None
    broadcasts: Broadcasts | None = None

    def __post_init__(self) -> None:
        for tag in (DEAD_LETTER_TAG, SKIPPED_TAG):
            if tag in self.function_outputs:
                msg = f"an output of a process step cannot be named {tag}, which is kept. Name it otherwise. tag={tag}"
                raise InvalidJobError(msg)

    @property
    def traits(self) -> OperatorTraits:
        """The watermark fires timers, and the function declares which column has the event time of its rows."""
        return OperatorTraits(fires_by_watermark=True, event_time=self.output_event_time)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The rows of the keys, the timers of both domains, and the map entries; see `state_schema`."""
        return (
            StateDescriptor(KEYS, "keys", _BYTES),
            StateDescriptor(EVENT_TIMERS, "event-time timers", _BYTES),
            StateDescriptor(PROCESSING_TIMERS, "processing-time timers", _BYTES),
            StateDescriptor(MAP_STATE_ID, "map entries", _BYTES),
            *(() if self.broadcasts is None else self.broadcasts.states),
        )

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of a record, the kind of the row, and the row of a broadcast input if there are any."""
        columns = [pa.field(f"_a{i}", each.type) for i, each in enumerate(self.record_fields)]
        version = () if self.broadcasts is None else (VERSION_FIELD,)
        return (*columns, pa.field(KIND_COLUMN, KIND_TYPE), *version)

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The side outputs of the function, and the dead letters if `on_error` is `dead-letter`."""
        letters = {DEAD_LETTER_TAG: DEAD_LETTER_FIELDS} if self.on_error == "dead-letter" else {}
        return {**self.function_outputs, **letters}

    @property
    def attributes(self) -> OperatorAttributes:
        """The attributes that the function's class declares."""
        return self.function.load().attributes

    def state_schema(self) -> Mapping[str, object]:
        """Return the function's declared states as JSON, for the manifest; see `incompatibilities`.

        This instantiates the function, and raises InvalidJobError if that fails. So it also serves to check a job
        before its start.
        """
        return state_schema_of(self.function)

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the batch's rows with their keys. A record is late only for a function with broadcast inputs."""
        assert batch.weights is None, "a process function takes no changelog"
        if self.broadcasts is None:
            return Folded(self._keyed(batch, max_parallelism))
        records = self._keyed(self.broadcasts.mains_of(batch, late_us), max_parallelism)
        sent = self.broadcasts.sent(batch, late_us, self._sorted_schema, self.key_schema, max_parallelism)
        return Folded(pa.concat_tables([records, *sent]), late_rows(batch, late_us))

    def _keyed(self, batch: Batch, max_parallelism: int) -> pa.Table:
        """Return the records of a batch with their keys."""
        encoded = encode_keys(batch.keys, self.key_schema)
        rows = len(encoded)
        columns = [
            pa.array(key_groups(encoded, max_parallelism=max_parallelism)),
            encoded,
            pa.array(np.zeros(rows, np.int64) if batch.times_us is None else batch.times_us),
            *batch.arguments,
            pa.array(self._kinds(batch, rows)),
            *([] if self.broadcasts is None else [pa.nulls(rows, VERSION_FIELD.type)]),
        ]
        return pa.table(columns, schema=self._sorted_schema)

    def _kinds(self, batch: Batch, rows: int) -> npt.NDArray[np.int8]:
        """Return the kind of each record (rows,)."""
        del batch
        return np.full(rows, RECORD, np.int8)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield timers that fire, keys with expired state (operators/process/due.py), and records that have waited."""
        if self.broadcasts is not None:
            yield from self.broadcasts.waiting(context, self._sorted_schema, self.key_schema)
            context = replace(context, time=time_behind(context.time))
        yield from due_tables(context, lambda: _states_of(self.function), self._sorted_schema, self._key_type)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows | SideRows]:
        """Call the function for sorted tables of whole keys, and yield the emitted rows.

        Raise InvalidJobError if the function fails and `on_error` is `fail`.
        """
        function = self.function.create()
        time, broadcast = context.time, None
        if self.broadcasts is not None:
            broadcast = BroadcastRun(self.broadcasts, self.key_schema, context)
            tables, time = broadcast.passed(tables), time_behind(time)
        turns = Turns(declared_states(function), context.backend, time)
        for name, handle in turns.handles.items():
            if isinstance(function, AdaptedFunction):
                function.bind(name, handle)
            else:
                setattr(function, name, handle)
        try:
            self._guarded(function, "open", OpenContext(self.operator_id, time.is_backlog))
            if time.was_backlog is not time.is_backlog:
                self._guarded(function, "process_record_attributes", RecordAttributes(time.is_backlog))
            calls = self._calls(function, turns, time, broadcast)
            splits = not isinstance(function, KeyedBatchProcessFunction)
            for table in tables:
                for chunk in chunks_of(self._in_order(table), self.key_schema, keys_max=turns.keys_max, splits=splits):
                    yield from calls.run(chunk)
            turns.finish()
            yield from calls.rows(1)
        except BaseException:
            with suppress(Exception):  # the first failure is the one to report
                function.close()
            raise
        self._guarded(function, "close")

    @property
    def _key_type(self) -> pa.DataType:
        width = self.key_schema.width
        return pa.large_binary() if width is None else pa.binary(width)

    @property
    def _sorted_schema(self) -> pa.Schema:
        keys = [pa.field(KEY_GROUP_COLUMN, pa.uint16()), pa.field(KEY_COLUMN, self._key_type)]
        return pa.schema([*keys, pa.field(TIME_COLUMN, pa.int64()), *self.input_fields])

    def _calls(self, function: AnyFunction, turns: Turns, time: EpochTime, broadcast: BroadcastRun | None) -> Calls:
        """Return the calls of a function object."""
        return Calls(self, function, turns, time, broadcast)

    def _in_order(self, table: pa.Table) -> pa.Table:
        """Return a sorted table of whole keys in the order in which the function sees the records."""
        return table

    def _guarded(self, function: AnyFunction, method: str, *arguments: Any) -> None:
        try:
            getattr(function, method)(*arguments)
        except Exception as error:
            raise lifecycle_error(error, operator_id=self.operator_id, file=file_of(function), method=method) from error


def state_schema_of(function: ClassSource[AnyFunction]) -> Mapping[str, object]:
    """Return the states that a function declares: see ProcessOperator.state_schema."""
    states = _states_of(function)
    return {"version": 1, "states": {name: state.as_json() for name, state in sorted(states.items())}}


def _states_of(source: ClassSource[AnyFunction]) -> dict[str, State]:
    """Return {name: state} of a new object, which processes nothing. That of another program's class is closed."""
    function = source.create()
    states = declared_states(function)
    if isinstance(function, AdaptedFunction):
        function.close()
    return states


def declared_states(function: AnyFunction) -> dict[str, State]:
    """Return {name: state} of a function object, from the attributes of its class and of the object.

    Attributes of the object count so that a ttl may depend on an argument of __init__.
    """
    if isinstance(function, AdaptedFunction):
        return dict(function.declared())
    declared: dict[str, State] = {}
    for attributes in (*(vars(each) for each in reversed(type(function).__mro__)), vars(function)):
        declared.update({name: value for name, value in attributes.items() if isinstance(value, State)})
    own: dict[int, str] = {}
    for name, state in declared.items():
        if own.setdefault(id(state), name) != name:
            msg = f"two states of a function are one object. Declare each. states={own[id(state)]}, {name}"
            raise InvalidJobError(msg)
    return declared
