"""The keyed aggregate: partial aggregates of an epoch meet the state of their keys.

The same code runs in the backlog and in live epochs; the backend decides what there is to read. Per batch it is one
read, one vectorised merge and one write.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.errors import InternalError
from mixedmode.keys import KeySchema
from mixedmode.state import KeyedStateBackend, StateDescriptor, StateTable
from operators.aggregate.aggregator import Aggregator
from operators.aggregate.changes import KeyedChanges
from operators.aggregate.reduce import Grouping
from operators.aggregate.segments import segments

KEY_GROUP_COLUMN = "_key_group"
KEY_COLUMN = "_key"


@dataclass(frozen=True, slots=True)
class AggregateOperator:
    """State: one row of registers per key. `needs_previous` when another keyed step follows."""

    aggregator: Aggregator
    key_schema: KeySchema
    is_change_log: bool
    needs_previous: bool

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """The operator's only state."""
        return (StateDescriptor(0, "aggregate", self.aggregator.state_fields),)

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """Columns of the operator's input beside key group and key: partial aggregates."""
        return self.aggregator.state_fields

    def combine(self, table: pa.Table) -> pa.Table:
        """A sorted table of partials -> one partial per key, sorted. What the sorter combines with."""
        table = table.combine_chunks()
        grouping, first_rows = segments(column_of(table, KEY_COLUMN))
        if grouping.size == table.num_rows:
            return table
        merged = self.aggregator.merge(grouping, [column_of(table, field.name) for field in self.input_fields])
        keys = table.select([KEY_GROUP_COLUMN, KEY_COLUMN]).take(pa.array(first_rows)).combine_chunks()
        return pa.table([*keys.columns, *merged], names=table.column_names)

    def process(self, table: pa.Table, backend: KeyedStateBackend) -> Iterator[KeyedChanges]:
        """Partials, one per key and sorted, against the keys' state. Yields the changes; writes the new state."""
        table = table.combine_chunks()
        if table.num_rows == 0:
            return
        keys = column_of(table, KEY_COLUMN)
        state = StateTable(self.states[0], backend)
        stored_keys = state.stored_keys(column_of(table, KEY_GROUP_COLUMN).to_numpy(), keys)
        found, old = state.read(stored_keys)
        new = [column_of(table, field.name) for field in self.input_fields]
        if len(found):
            codes = np.concatenate([found, np.arange(len(keys))])
            new = self.aggregator.merge(
                Grouping(codes, len(keys)), [pa.concat_arrays([a, b]) for a, b in zip(old, new, strict=True)]
            )
        existed = np.zeros(len(keys), np.bool_)
        existed[found] = True
        exists = self._exists(new, len(keys))
        _write(state, stored_keys, new, existed, exists)
        previous = self.aggregator.results(old) if self.needs_previous else None
        yield KeyedChanges(keys, existed, exists, self.aggregator.results(new), previous)

    def _exists(self, columns: list[pa.Array], size: int) -> "np.typing.NDArray[np.bool_]":
        """A key of a change log is gone when all of its rows were taken back; other keys stay."""
        if not self.is_change_log:
            return np.ones(size, np.bool_)
        counts = self.aggregator.row_counts(columns)
        if (counts < 0).any():
            msg = (
                "more rows were taken back than a key ever had. This is a defect; report it. "
                f"keys_affected={int((counts < 0).sum())}"
            )
            raise InternalError(msg)
        return counts > 0


def _write(
    state: StateTable,
    stored_keys: list[bytes],
    columns: list[pa.Array],
    existed: "np.typing.NDArray[np.bool_]",
    exists: "np.typing.NDArray[np.bool_]",
) -> None:
    if exists.all():
        state.write(stored_keys, columns)
        return
    touched = np.flatnonzero(existed | exists)  # a key that came and went within the epoch leaves no trace
    kept = pa.array(touched)
    state.write(
        [stored_keys[row] for row in touched],
        [column.take(kept) for column in columns],
        deleted=np.flatnonzero(~exists[touched]).tolist(),
    )


def column_of(table: pa.Table, name: str) -> pa.Array:
    """A column of a table as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
