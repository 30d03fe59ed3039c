"""The operator of an `async-map` step: it asks a service for the answer to each request, and adds it to the rows.

The request of a row is its key. So rows with one request get one answer, a request is sent once in an epoch, and an
answer can be remembered by key. Rows are emitted in the order of (key, event time), each once.

A row has its place after its key in the sorter's key, so the sorter may cut between any two rows, and a key with many
rows passes through in little memory:

    _key = key (keys/encode.py) | event time, 9 bytes | place in its batch u32

Requests are sent for a block of keys at a time; the rows of a block are emitted before the next one begins. A key whose
remembered answer ends comes as one row with `_ends`, which sorts after the rows of the key.

State layout, with `remember_ms`; an answer ends at `until`, when the clock of an epoch has reached it:
    answers   key group | 0 | key           value = until, the packed answer
    expiries  key group | 1 | until | key   value = version u8
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.operators.async_map.answers import ANSWER_FIELDS, ANSWERS, EXPIRIES, expiring_us
from mixedmode.operators.async_map.calls import CallSettings
from mixedmode.operators.async_map.function import AsyncMapFunction
from mixedmode.operators.async_map.rows import ENDS, joined_rows
from mixedmode.operators.async_map.run import Run
from mixedmode.operators.classes import ClassSource
from mixedmode.operators.interface import (
    KEY_COLUMN,
    KEY_GROUP_COLUMN,
    AppendedRows,
    Batch,
    Folded,
    OperatorBase,
    OperatorTraits,
    SideRows,
    SubtaskContext,
)
from mixedmode.operators.process.failures import DEAD_LETTER_FIELDS, DEAD_LETTER_TAG, OnError
from mixedmode.operators.top.rows import without_prefix
from mixedmode.operators.window.keys import TIME_BYTES
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state import StateDescriptor
from mixedmode.state.keys import PREFIX_BYTES

__all__ = ["AsyncMapOperator"]


@dataclass(frozen=True, slots=True)
class AsyncMapOperator(OperatorBase):
    """Add the answer to each row. Output: the key columns, the other columns of the input, the columns of the answer.

    The arguments of a batch are the columns of the row other than the key. `remember_ms`: how long an answer counts;
    None: for the epoch.
    """

    operator_id: str
    function: ClassSource[AsyncMapFunction]
    key_schema: KeySchema
    row_fields: tuple[pa.Field, ...]
    answer_fields: tuple[pa.Field, ...]
    calls: CallSettings
    on_error: OnError = "fail"
    remember_ms: int | None = None
    has_event_time: bool = True

    traits = OperatorTraits(state_uses_time=False, passes_event_time=True)

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The remembered answers, and their ends; () if nothing is remembered."""
        if self.remember_ms is None:
            return ()
        return (
            StateDescriptor(ANSWERS, "answers", ANSWER_FIELDS),
            StateDescriptor(EXPIRIES, "expiries", (), is_read_by_key=False),
        )

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The columns of the row other than the key, and whether the row is the end of an answer."""
        columns = [pa.field(f"_a{index}", each.type) for index, each in enumerate(self.row_fields)]
        return (*columns, pa.field(ENDS, pa.bool_()))

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, the other columns of the row, the columns of the answer."""
        return (*self.key_schema.fields, *self.row_fields, *self.answer_fields)

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """The dead letters if `on_error` is `dead-letter`."""
        return {DEAD_LETTER_TAG: DEAD_LETTER_FIELDS} if self.on_error == "dead-letter" else {}

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return the batch's rows with their keys. No row is late."""
        del late_us
        assert batch.weights is None, "an async-map step takes no changelog"
        encoded = encode_keys(batch.keys, self.key_schema)
        groups = key_groups(encoded, max_parallelism=max_parallelism)
        times = np.zeros(len(encoded), np.int64) if batch.times_us is None else batch.times_us
        packed = joined_rows(encoded, times, np.arange(len(encoded), dtype=np.uint32))
        columns = [pa.array(groups), packed, *batch.arguments, pa.array(np.zeros(len(encoded), np.bool_))]
        return Folded(pa.table(columns, schema=self._sorted_schema))

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield the keys whose remembered answers end in this epoch."""
        if self.remember_ms is None:
            return
        for found in stored_in(context, EXPIRIES, [expiring_us(context)]):
            keys = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES)
            count = len(keys)
            nulls = [pa.nulls(count, field.type) for field in self.row_fields]
            packed = joined_rows(keys, np.full(count, 2**63 - 1), np.full(count, 2**32 - 1, np.uint32))
            columns = [pa.array(found.groups()), packed, *nulls, pa.array(np.ones(count, np.bool_))]
            yield sort_table(pa.table(columns, schema=self._sorted_schema))

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[AppendedRows | SideRows]:
        """Yield the rows with their answers, and the rows whose requests failed.

        Raise InvalidJobError or RetryableError if a request fails and `on_error` is `fail`.
        """
        with ExitStack() as stack:
            run = stack.enter_context(Run(self, context))
            for table in tables:
                yield from run.process(table)
            run.finish()

    @property
    def _sorted_schema(self) -> pa.Schema:
        keys = [pa.field(KEY_GROUP_COLUMN, pa.uint16()), pa.field(KEY_COLUMN, pa.large_binary())]
        return pa.schema([*keys, *self.input_fields])
