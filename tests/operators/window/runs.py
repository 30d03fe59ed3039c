"""A window operator run as the engine runs it, over any cut of the records into epochs, slices and subtasks.

`Output` is a reader of the main output who checks every change: nothing is inserted twice, nothing is updated or
retracted that does not exist.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedDict

from mixedmode.keys import KeySchema, group_range
from mixedmode.operators.interface import KEY_GROUP_COLUMN, Batch, Changes, KeyedOperator, SideRows, SubtaskContext
from mixedmode.sort import ExternalSorter, check_sorted, sort_table
from mixedmode.state import KeyedStateBackend, MemoryBackend, SingleKeyBackend
from mixedmode.time import EpochTime
from tests.operators.epochs import MemoryState, State
from tests.operators.oracle import Record, aggregate
from tests.operators.partials import aggregator_of

MAX_PARALLELISM = 8
KEYED = KeySchema((pa.field("user", pa.string()), pa.field("shard", pa.int32())))
FIXED = KeySchema((pa.field("shard", pa.int32()),))
CALLS = (("count", None), ("sum", pa.int64()), ("max", pa.string()), ("last", pa.int64()))
AGGREGATOR = aggregator_of(*CALLS)


@dataclass(frozen=True, slots=True)
class Event:
    """A record: `number` and `text` are arguments. `weight`: -1 if it retracts an equal record."""

    key: int
    time_us: int
    number: int | None = 1
    text: str | None = "a"
    weight: int = 1


Arguments = Callable[[Sequence[Event]], list[pa.Array]]


def key_values(schema: KeySchema | None, key: int) -> tuple[Any, ...]:
    """The values of the key columns of key number `key`."""
    values = {"user": "u\x00" * (key % 2) + chr(97 + key), "shard": key}
    return () if schema is None else tuple(values[column.name] for column in schema.fields)


def results_of(events: Sequence[Event]) -> tuple[Any, ...]:
    """Return the results of AGGREGATOR's aggregates over these records."""
    numbers = [Record(event.number, event.time_us) for event in events]
    texts = [Record(event.text, event.time_us) for event in events]
    return (
        len(events),
        aggregate("sum", numbers, pa.int64()),
        aggregate("max", texts, pa.string()),
        aggregate("last", numbers, pa.int64()),
    )


def arguments_of(events: Sequence[Event]) -> list[pa.Array]:
    """The argument columns of AGGREGATOR."""
    numbers = pa.array([event.number for event in events], pa.int64())
    texts = pa.array([event.text for event in events], pa.string())
    return [numbers, numbers, texts, numbers]


def batch_of(events: Sequence[Event], schema: KeySchema | None, arguments: Arguments = arguments_of) -> Batch:
    """Records as the map side gives them to the operator."""
    rows = [key_values(schema, event.key) for event in events]
    fields = () if schema is None else schema.fields
    keys = [pa.array([row[i] for row in rows], column.type) for i, column in enumerate(fields)]
    weights = np.array([e.weight for e in events], np.int64)
    is_changelog = bool((weights != 1).any())
    times_us = np.array([e.time_us for e in events], np.int64)
    return Batch(keys, arguments(events), times_us, weights if is_changelog else None)


@dataclass
class Output:
    """The rows of the main output as of now: {output key: results}."""

    key_columns: int
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    given: int = 0  #: rows given so far

    def apply(self, changes: Sequence[Changes], *, with_changelog: bool) -> None:
        """All changes of one epoch and subtask."""
        log: Counter[tuple[Any, ...]] = Counter()
        before = dict(self.rows)
        for change in changes:
            for *row, operation in _rows(change.upserts()):
                self._upsert(tuple(row[: self.key_columns]), tuple(row[self.key_columns :]), operation)
            if with_changelog:
                for *row, weight in _rows(change.changelog()):
                    log[tuple(row)] += weight
        if with_changelog:
            expected = Counter({key + results: 1 for key, results in self.rows.items()})
            expected.subtract({key + results: 1 for key, results in before.items()})
            assert {row: n for row, n in log.items() if n} == {row: n for row, n in expected.items() if n}

    def _upsert(self, key: tuple[Any, ...], results: tuple[Any, ...], operation: str) -> None:
        self.given += 1
        assert (operation == "insert") == (key not in self.rows), f"{operation} of {key}"
        if operation == "delete":
            assert set(results) == {None}, results
            del self.rows[key]
        else:
            self.rows[key] = results


@dataclass
class Run:
    """One run of an operator; state and output are as of the last epoch."""

    operator: Any
    parallelism: int = 2
    slices: int = 2
    sort_budget_bytes: int = 4_000
    with_changelog: bool = False
    state: State = field(default_factory=MemoryState)
    arguments: Arguments = arguments_of
    output: Output = field(init=False)
    late: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = Output(len(self.operator.output_key))

    @property
    def entries(self) -> SortedDict:
        """Return the stored entries."""
        assert isinstance(self.state, MemoryState), self.state
        return self.state.entries

    def epoch(self, events: Sequence[Event], time: EpochTime) -> None:
        """Records of an epoch, in slices, through sorters to the subtasks."""
        tables = []
        for start in range(self.slices):
            part = list(events[start :: self.slices])
            batch = batch_of(part, self.operator.key_schema, self.arguments)
            folded = self.operator.fold(batch, late_us=time.late_us, max_parallelism=MAX_PARALLELISM)
            self.late += [part[row] for row in folded.late_rows]
            tables.append(sort_table(folded.table))
        with self.state.epoch() as committing:
            backend = committing
            if isinstance(committing, MemoryBackend) and time.is_backlog and time.was_backlog is None:
                backend = SingleKeyBackend(committing)
            for subtask in range(self.parallelism):
                of_subtask = [_of_subtask(table, subtask, self.parallelism) for table in tables]
                self._subtask(subtask, of_subtask, backend, time)

    def _subtask(self, subtask: int, tables: list[pa.Table], backend: KeyedStateBackend, time: EpochTime) -> None:
        groups = group_range(subtask, parallelism=self.parallelism, max_parallelism=MAX_PARALLELISM)
        context = SubtaskContext(backend, time, groups, 0)
        operator: KeyedOperator = self.operator
        with (
            tempfile.TemporaryDirectory() as folder,
            ExternalSorter(
                budget_bytes=self.sort_budget_bytes,
                spill_dir=Path(folder),
                combine=operator.combine,
                undivided="key" if operator.combine is None else "row",
            ) as sorter,
        ):
            for table in [*tables, *operator.due(context)]:
                check_sorted(table)
                sorter.add_sorted(table)
            changes = [_main(change) for change in operator.process(sorter.sorted_tables(), context)]
        names = [column.name for column in operator.output_fields]
        for change in changes:
            upserts = change.upserts()
            assert upserts.column_names == [*names, "_op"]
            assert upserts.schema.types[:-1] == [column.type for column in operator.output_fields]
        self.output.apply(changes, with_changelog=self.with_changelog)


def epoch_time(
    late_us: int,
    firing_us: int,
    *,
    clock_ms: int = 0,
    clock_before_ms: int | None = None,
    is_backlog: bool = False,
    was_backlog: bool | None = False,
) -> EpochTime:
    """An epoch between two watermarks."""
    return EpochTime(late_us, firing_us, clock_ms, clock_before_ms, is_backlog, was_backlog)


def _main(change: Changes | SideRows) -> Changes:
    assert not isinstance(change, SideRows), "window operators have no side outputs"
    return change


def _of_subtask(table: pa.Table, subtask: int, parallelism: int) -> pa.Table:
    groups = table.column(KEY_GROUP_COLUMN).to_numpy()
    own = group_range(subtask, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
    return table.filter(pa.array((own.start <= groups) & (groups < own.end)))


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns = [
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in table.columns
    ]
    return iter(zip(*columns, strict=True))
