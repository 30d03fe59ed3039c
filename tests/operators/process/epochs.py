"""Epochs of a process function, for its tests: what the runtime does, without Spark, files and a clock."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedDict

from mixedmode.keys import KeySchema, group_range
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.interface import AppendedRows, Batch, SubtaskContext
from mixedmode.operators.process import (
    PROCESS_FUNCTION,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    OnError,
    ProcessOperator,
)
from mixedmode.sort import ExternalSorter
from mixedmode.state import KeyedStateBackend
from mixedmode.state.memory import MemoryBackend
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime
from tests.operators.epochs import RunState

MAX_PARALLELISM = 4  # few key groups, so that several keys share one
KEY = pa.field("k", pa.string())
TIME = pa.field("t", pa.timestamp("us", tz="UTC"))
VALUE = pa.field("v", pa.int64())

Row = dict[str, Any]
Input = tuple[str, int, Any]  #: key, time in microseconds, value


@dataclass(frozen=True, slots=True)
class Given:
    """The output of an epoch: rows of the main output in order, and of each side output."""

    rows: list[Row]
    sides: dict[str, list[Row]] = field(default_factory=dict)


def operator_of(
    function_class: type[KeyedProcessFunction | KeyedBatchProcessFunction],
    output: Mapping[str, pa.DataType],
    *,
    args: Mapping[str, Any] | None = None,
    value_type: pa.DataType | None = None,
    outputs: Mapping[str, tuple[pa.Field, ...]] | None = None,
    on_error: OnError = "fail",
) -> ProcessOperator:
    """A step keyed by `k`, with the event time `t` and a value `v`."""
    return ProcessOperator(
        operator_id="1-step",
        function=GivenClass(PROCESS_FUNCTION, function_class, args or {}),
        key_schema=KeySchema((KEY,)),
        record_fields=(KEY, TIME, VALUE if value_type is None else pa.field("v", value_type)),
        output_fields=tuple(pa.field(name, data_type) for name, data_type in output.items()),
        function_outputs=outputs or {},
        on_error=on_error,
    )


class Epochs:
    """Runs epoch after epoch over state in memory. `entries`: {stored key: value}, as committed.

    runs: where the state is instead.
    """

    def __init__(
        self, operator: ProcessOperator, *, max_parallelism: int = MAX_PARALLELISM, runs: RunState | None = None
    ) -> None:
        self.operator = operator
        self.entries: SortedDict = SortedDict()
        self._runs = runs
        self.pairs_written = 0  #: by the latest epoch
        self.emit_bytes = 512  #: of a table that the sorter gives, so that an epoch has several
        self._max_parallelism = max_parallelism
        self._fired_us = MIN_TIME_US
        self._clock_ms = 0
        self._clock_before_ms: int | None = None
        self._was_backlog: bool | None = None

    def run(
        self,
        records: Sequence[Input] = (),
        *,
        watermark: int | None = None,
        clock_ms: int | None = None,
        is_backlog: bool = False,
        parallelism: int = 1,
        slices: int = 1,
    ) -> Given:
        """One epoch at whose end the watermark is `watermark` (default: as before)."""
        self._clock_ms = self._clock_ms if clock_ms is None else clock_ms
        firing_us = self._fired_us if watermark is None else max(watermark, self._fired_us)
        time = EpochTime(
            late_us=self._fired_us,
            firing_us=firing_us,
            clock_ms=self._clock_ms,
            clock_before_ms=self._clock_before_ms,
            is_backlog=is_backlog,
            was_backlog=self._was_backlog,
            is_final=firing_us == MAX_TIME_US,
        )
        tables = [self._fold(list(records[i::slices])) for i in range(slices)]
        given = self._process(tables, time, parallelism)
        self._fired_us, self._was_backlog = firing_us, is_backlog
        self._clock_before_ms = None if is_backlog else self._clock_ms
        return given

    def end(self, records: Sequence[Input] = (), **options: Any) -> Given:
        """The epoch in which the input ends."""
        return self.run(records, watermark=MAX_TIME_US, **options)

    def stored(self, state_id: int) -> dict[bytes, bytes]:
        """The committed entries of one state."""
        return {key: value for key, value in self.entries.items() if key[2] == state_id}

    def _fold(self, records: Sequence[Input]) -> pa.Table:
        fields = self.operator.record_fields
        keys = pa.array([record[0] for record in records], KEY.type)
        times = np.array([record[1] for record in records], np.int64)
        values = pa.array([record[2] for record in records], fields[2].type)
        arguments = [keys, pa.array(times).cast(TIME.type), values]
        batch = Batch(keys=[keys], arguments=arguments, times_us=times, weights=None)
        folded = self.operator.fold(batch, late_us=self._fired_us, max_parallelism=self._max_parallelism)
        assert len(folded.late_rows) == 0, "no record is too late for a function"
        return folded.table

    def _process(self, tables: Sequence[pa.Table], time: EpochTime, parallelism: int) -> Given:
        rows: list[Row] = []
        sides: dict[str, list[Row]] = {}
        with self._backend() as backend:
            self._subtasks(tables, time, backend, parallelism, Given(rows, sides))
        return Given(rows, sides)

    @contextmanager
    def _backend(self) -> Iterator[KeyedStateBackend]:
        if self._runs is not None:
            with self._runs.epoch() as backend:
                yield backend
        else:
            memory = MemoryBackend(self.entries)
            yield memory
            self.pairs_written = memory.commit()

    def _subtasks(
        self, tables: Sequence[pa.Table], time: EpochTime, backend: KeyedStateBackend, parallelism: int, given: Given
    ) -> None:
        for subtask in range(parallelism):
            groups = group_range(subtask, parallelism=parallelism, max_parallelism=self._max_parallelism)
            context = SubtaskContext(backend, time, groups, 0)
            for changes in self._changes(tables, context):
                if isinstance(changes, AppendedRows):
                    assert changes.rows.schema == pa.schema(self.operator.output_fields)
                    given.rows.extend(changes.rows.to_pylist())
                else:
                    given.sides.setdefault(changes.tag, []).extend(changes.rows.to_pylist())

    def _changes(self, tables: Sequence[pa.Table], context: SubtaskContext) -> list[Any]:
        with (
            tempfile.TemporaryDirectory() as folder,
            ExternalSorter(
                budget_bytes=2**24, spill_dir=Path(folder), undivided="key", emit_bytes=self.emit_bytes
            ) as sorter,
        ):
            for table in tables:
                owned = [context.groups.start <= group < context.groups.end for group in table[0].to_pylist()]
                sorter.add(table.filter(pa.array(owned, pa.bool_())))
            for table in self.operator.due(context):
                sorter.add_sorted(table)
            return list(self.operator.process(sorter.sorted_tables(), context))
