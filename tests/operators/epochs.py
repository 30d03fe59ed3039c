"""Keyed state from epoch to epoch, for the tests of operators: what the runtime does, without Spark and manifests.

Two kinds behind one seam: `MemoryState`, whose backend also checks what operators promise a backend; and `RunState`,
the real thing: the single-key backend in the first epoch, RocksDB in those after it.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedDict
from typing_extensions import override

from mixedmode.keys import KeyGroupRange
from mixedmode.operators.aggregate import AggregateOperator, MultisetAggregateOperator, UpsertOperator
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.apply_changes import ApplyChangesOperator
from mixedmode.operators.interface import WEIGHT_COLUMN, Batch, SubtaskContext
from mixedmode.operators.top import TopOperator
from mixedmode.sort import sort_table
from mixedmode.sort.tables import whole_keys
from mixedmode.state import KeyedStateBackend, SingleKeyBackend
from mixedmode.state.memory import MemoryBackend
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.replica import WantedRun, columns_of
from mixedmode.time import MIN_TIME_US, EpochTime

MAX_PARALLELISM = 4  # few key groups, so that several keys share one
Operator = AggregateOperator | MultisetAggregateOperator | UpsertOperator | TopOperator | ApplyChangesOperator


class State(Protocol):
    """State of one operator; what one epoch writes is what the next one reads. `epochs`: how many there were."""

    epochs: int

    @abstractmethod
    def epoch(self) -> AbstractContextManager[KeyedStateBackend]:
        """The backend of the next epoch, which is committed at the end of the block."""


class MemoryState(State):
    """Everything in a sorted dictionary."""

    def __init__(self) -> None:
        self.entries = SortedDict()
        self.epochs = 0

    @contextmanager
    @override
    def epoch(self) -> Iterator[KeyedStateBackend]:
        backend = MemoryBackend(self.entries)
        yield backend
        backend.commit()
        self.epochs += 1


class RunState(State):
    """Runs in `folder`, one per epoch and state, and a replica of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.epochs = 0
        self._runs: list[LocalRun] = []

    @contextmanager
    @override
    def epoch(self) -> Iterator[KeyedStateBackend]:
        with RunWriter(self._folder / f"epoch-{self.epochs}", columns_bytes=1 << 20) as writer:
            if self.epochs == 0:
                yield SingleKeyBackend(writer)
            else:
                wanted = [WantedRun(str(run.path), partial(os.link, run.path)) for run in self._runs]
                with open_replica(self._folder / "replica", wanted, attempt="a") as replica:
                    per_group = sum(run.entries for run in self._runs) / MAX_PARALLELISM
                    yield RocksDBBackend(replica, writer, {0: per_group, 1: per_group})
            new = writer.finish()
            for run in new:
                if run.columns is not None and self.epochs % 3 < 2:  # so that some epochs read RocksDB as well
                    columns_of(self._folder / "replica").keep(str(run.path), run.columns)
            self._runs += new
        self.epochs += 1


def map_side(
    operator: Operator,
    keys: Sequence[pa.Array],
    arguments: Sequence[pa.Array],
    *,
    times_us: Sequence[int] | None = None,
    weights: Sequence[int] | None = None,
) -> pa.Table:
    """Rows as the exchange brings them to an operator: folded if it takes partials, keyed, sorted."""
    batch = Batch(
        keys=list(keys),
        arguments=list(arguments),
        times_us=None if times_us is None else np.array(times_us, np.int64),
        weights=None if weights is None else np.array(weights, np.int64),
    )
    return sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=MAX_PARALLELISM).table)


def run_epoch(operator: Operator, state: State, table: pa.Table, *, piece_rows: int = 3) -> list[KeyedChanges]:
    """One epoch of an operator, its input in several tables of whole keys, as the sorter gives it."""
    pieces = [table.slice(start, piece_rows) for start in range(0, table.num_rows, piece_rows)]
    with state.epoch() as backend:
        return list(operator.process(whole_keys(pieces), context_of(backend, state.epochs)))


def context_of(backend: KeyedStateBackend, epoch: int = 0) -> SubtaskContext:
    """A subtask that owns every key group, in an epoch without event time."""
    time = EpochTime(
        late_us=MIN_TIME_US,
        firing_us=MIN_TIME_US,
        clock_ms=0,
        clock_before_ms=None,
        is_backlog=False,
        was_backlog=None,
    )
    return SubtaskContext(backend, time, KeyGroupRange(0, MAX_PARALLELISM), epoch)


def changelog_of(operator: Operator, changes: Sequence[KeyedChanges]) -> pa.Table:
    """All rows retracted and added in an epoch."""
    schema = pa.schema([*operator.output_fields, pa.field(WEIGHT_COLUMN, pa.int64())])
    tables = [change.changelog().cast(schema) for change in changes]
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
