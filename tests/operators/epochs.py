"""Keyed state from epoch to epoch, for the tests of operators: what the runtime does, without Spark and manifests.

Two kinds behind one seam: `MemoryState`, the twin of the seam in a dictionary, which also checks what operators promise
a backend; and `RunState`, the real thing: the single-key backend in the first epoch, RocksDB in those after it.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.sort import sort_table
from mixedmode.sort.tables import whole_keys
from mixedmode.state import KeyedStateBackend, SingleKeyBackend, StateRange
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.replica import WantedRun
from operators.aggregate import WEIGHT_COLUMN, AggregateOperator, MultisetAggregateOperator, UpsertOperator
from operators.aggregate.changes import KeyedChanges
from operators.aggregate.operator import KEY_COLUMN, KEY_GROUP_COLUMN
from tests.operators.partials import fold

MAX_PARALLELISM = 4  # few key groups, so that several keys share one
Operator = AggregateOperator | MultisetAggregateOperator | UpsertOperator


class State(Protocol):
    """State of one operator; what one epoch writes is what the next one reads."""

    def epoch(self) -> AbstractContextManager[KeyedStateBackend]:
        """The backend of the next epoch, which is committed at the end of the block."""


class MemoryState:
    """Everything in a dictionary."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    @contextmanager
    def epoch(self) -> Iterator[KeyedStateBackend]:
        """See State."""
        backend = MemoryBackend(self.entries)
        yield backend
        for key, value in backend.written.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value


class MemoryBackend:
    """Reads what was committed, keeps what is written; checks that keys are in order."""

    def __init__(self, committed: dict[bytes, bytes]) -> None:
        self._committed = committed
        self.written: dict[bytes, bytes | None] = {}

    def read(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """See KeyedStateBackend."""
        assert sorted(set(keys)) == list(keys), "keys are read sorted and distinct"
        assert all(key[2] == state_id for key in keys), "a key names its state"
        return [self._committed.get(key) for key in keys]

    def scan(self, state_id: int, start: bytes, end: bytes) -> StateRange:
        """See KeyedStateBackend."""
        assert start[:3] == end[:3], "a range lies within one key group"
        assert start[2] == state_id, "a key names its state"
        keys = sorted(key for key in self._committed if start <= key < end)
        return StateRange(keys, [self._committed[key] for key in keys])

    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """See KeyedStateBackend."""
        order = [key for key in self.written if key[2] == state_id] + list(keys)
        assert all(a < b for a, b in pairwise(order)), "keys grow over all writes of an epoch"
        for key, value in zip(keys, values, strict=True):
            assert value is not None or key in self._committed, "what was never there needs no tombstone"
            self.written[key] = value


class RunState:
    """Runs in `folder`, one per epoch and state, and a replica of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._epochs = 0
        self._runs: list[LocalRun] = []

    @contextmanager
    def epoch(self) -> Iterator[KeyedStateBackend]:
        """See State."""
        with RunWriter(self._folder / f"epoch-{self._epochs}") as writer:
            if self._epochs == 0:
                yield SingleKeyBackend(writer)
            else:
                wanted = [WantedRun(str(run.path), _Link(run.path)) for run in self._runs]
                with open_replica(self._folder / "replica", wanted, attempt="a") as replica:
                    per_group = sum(run.entries for run in self._runs) / MAX_PARALLELISM
                    yield RocksDBBackend(replica.database, writer, {0: per_group, 1: per_group})
            self._runs += writer.finish()
        self._epochs += 1


class _Link:
    def __init__(self, source: Path) -> None:
        self._source = source

    def __call__(self, target: Path) -> None:
        os.link(self._source, target)


def map_side(
    operator: Operator,
    keys: Sequence[pa.Array],
    arguments: Sequence[pa.Array],
    *,
    weights: Sequence[int] | None = None,
) -> pa.Table:
    """Rows as the exchange brings them to an operator: folded if it takes partials, keyed, sorted."""
    schema: KeySchema = operator.key_schema
    payload = list(arguments)
    if isinstance(operator, AggregateOperator):
        rows = list(zip(*(key.to_pylist() for key in keys), strict=True))
        distinct = list(dict.fromkeys(rows))
        partials = fold(operator.aggregator, [distinct.index(row) for row in rows], arguments, weights=weights)
        keys = [pa.array([row[i] for row in distinct], field.type) for i, field in enumerate(schema.fields)]
        payload = partials.columns
    elif weights is not None:
        payload.append(pa.array(weights, pa.int64()))
    encoded = encode_keys(keys, schema)
    groups = pa.array(key_groups(encoded, max_parallelism=MAX_PARALLELISM))
    names = [KEY_GROUP_COLUMN, KEY_COLUMN, *(field.name for field in operator.input_fields)]
    return sort_table(pa.table([groups, encoded, *payload], names=names))


def run_epoch(operator: Operator, state: State, table: pa.Table, *, piece_rows: int = 3) -> list[KeyedChanges]:
    """One epoch of an operator, its input in several tables of whole keys, as the sorter gives it."""
    pieces = [table.slice(start, piece_rows) for start in range(0, table.num_rows, piece_rows)]
    with state.epoch() as backend:
        return [changes for piece in whole_keys(pieces) for changes in operator.process(piece, backend)]


def change_log_of(operator: Operator, changes: Sequence[KeyedChanges], fields: Sequence[pa.Field]) -> pa.Table:
    """All rows taken back and added in an epoch."""
    schema = pa.schema([*operator.key_schema.fields, *fields, pa.field(WEIGHT_COLUMN, pa.int64())])
    tables = [change.change_log(operator.key_schema, fields).cast(schema) for change in changes]
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
