"""The operator of a `process` step: brings records and timers to a user's function, key by key.

The one idea: a key's turn. All its records of the epoch come first, in event-time order, then its timers that are due,
in time order, also those registered meanwhile. In the backlog that is the whole life of a key up to the end-of-key
watermark, live it is one epoch of it, and the code is the same.

Source: FLIP-327 and FLIP-140 (end of a key), Flink's KeyedProcessOperator.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.classes import file_of
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    TIME_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorAttributes,
    SideRows,
    SubtaskContext,
)
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
from mixedmode.operators.process.function import KeyedProcessFunction, OpenContext, RecordAttributes
from mixedmode.operators.process.maps import MAP_STATE_ID
from mixedmode.operators.process.reference import AnyFunction, FunctionSource
from mixedmode.operators.process.states import State
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS
from mixedmode.operators.process.turns import Turns
from mixedmode.sort import Combine
from mixedmode.state import StateDescriptor

_BYTES = (pa.field("value", pa.large_binary()),)


@dataclass(frozen=True, slots=True)
class ProcessOperator:
    """Calls `function` for each key. Implements operators.interface.KeyedOperator.

    record_fields: the columns of a record, in the order of Batch.arguments. output_fields: those of a row.
    function_outputs: {tag: columns} of the side outputs that the function may use. on_error: what happens to a record
    at which the function fails. has_event_time: whether batches have times; else records come in no certain order.
    """

    operator_id: str
    function: FunctionSource
    key_schema: KeySchema
    record_fields: tuple[pa.Field, ...]
    output_fields: tuple[pa.Field, ...]
    function_outputs: Mapping[str, tuple[pa.Field, ...]] = field(default_factory=dict)
    on_error: OnError = "fail"
    has_event_time: bool = True

    def __post_init__(self) -> None:
        for tag in (DEAD_LETTER_TAG, SKIPPED_TAG):
            if tag in self.function_outputs:
                msg = f"an output of a process step cannot be named {tag}, which is kept. Name it otherwise. tag={tag}"
                raise InvalidJobError(msg)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """Rows of the keys, timers of both domains, map entries: bytes of their own each. See `state_schema`."""
        return (
            StateDescriptor(KEYS, "keys", _BYTES),
            StateDescriptor(EVENT_TIMERS, "event-time timers", _BYTES),
            StateDescriptor(PROCESSING_TIMERS, "processing-time timers", _BYTES),
            StateDescriptor(MAP_STATE_ID, "map entries", _BYTES),
        )

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """A record's columns, and what kind of row it is."""
        columns = [pa.field(f"_a{i}", each.type) for i, each in enumerate(self.record_fields)]
        return (*columns, pa.field(KIND_COLUMN, KIND_TYPE))

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """None: every row stands for itself."""
        return ()

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The function's, and the dead letters if there are any."""
        letters = {DEAD_LETTER_TAG: DEAD_LETTER_FIELDS} if self.on_error == "dead-letter" else {}
        return {**self.function_outputs, **letters}

    @property
    def attributes(self) -> OperatorAttributes:
        """What the function's class says."""
        return self.function.attributes

    @property
    def combine(self) -> Combine | None:
        """None: a function gets every record."""
        return None

    def state_schema(self) -> Mapping[str, object]:
        """For the manifest: what the function keeps, as JSON; see `incompatibilities`. Makes a function object.

        Raises InvalidJobError when the function cannot be made, so this is also the check of a job before its start.
        """
        states = declared_states(self.function.create())
        return {"version": 1, "states": {name: state.as_json() for name, state in sorted(states.items())}}

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """The batch's rows with their keys. No record is too late for a function."""
        del late_us
        assert batch.weights is None, "a process function takes no changelog"
        encoded = encode_keys(batch.keys, self.key_schema)
        rows = len(encoded)
        times = np.zeros(rows, np.int64) if batch.times_us is None else batch.times_us
        columns = [
            pa.array(key_groups(encoded, max_parallelism=max_parallelism)),
            encoded,
            pa.array(times),
            *batch.arguments,
            pa.array(np.full(rows, RECORD, np.int8)),
        ]
        return Folded(pa.table(columns, schema=self._sorted_schema), np.empty(0, np.intp))

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Timers that fire, and keys with expired state; see operators/process/due.py."""
        return due_tables(context, lambda: declared_states(self.function.create()), self._sorted_schema, self._key_type)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows | SideRows]:
        """Sorted tables of whole keys. Raises InvalidJobError when the function fails and `on_error` is `fail`."""
        function = self.function.create()
        time = context.time
        turns = Turns(declared_states(function), context.backend, time)
        for name, handle in turns.handles.items():
            setattr(function, name, handle)
        try:
            self._guarded(function, "open", OpenContext(self.operator_id, time.is_backlog))
            if time.was_backlog is not time.is_backlog:
                self._guarded(function, "process_record_attributes", RecordAttributes(time.is_backlog))
            calls = Calls(self, function, turns, time)
            splits = isinstance(function, KeyedProcessFunction)
            for table in tables:
                for chunk in chunks_of(table, self.key_schema, keys_max=turns.keys_max, splits=splits):
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

    def _guarded(self, function: AnyFunction, method: str, *arguments: Any) -> None:
        try:
            getattr(function, method)(*arguments)
        except Exception as error:
            raise lifecycle_error(error, operator_id=self.operator_id, file=file_of(function), method=method) from error


def declared_states(function: AnyFunction) -> dict[str, State]:
    """{name: state} of a function object: attributes of its class, and its own, so that a ttl may be an argument."""
    declared: dict[str, State] = {}
    for attributes in (*(vars(each) for each in reversed(type(function).__mro__)), vars(function)):
        declared.update({name: value for name, value in attributes.items() if isinstance(value, State)})
    own: dict[int, str] = {}
    for name, state in declared.items():
        if own.setdefault(id(state), name) != name:
            msg = f"two states of a function are one object. Declare each. states={own[id(state)]}, {name}"
            raise InvalidJobError(msg)
    return declared
