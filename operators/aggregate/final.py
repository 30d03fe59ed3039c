"""The aggregate over rows of windows that are final: keyed by the bounds of a window, without state.

An upstream step emits all rows of the windows with one end in one epoch. So a key that has the bounds of the window
gets all of its rows in that epoch, and its result is final. Source: window aggregation in Flink's window TVFs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.keys import decode_keys
from mixedmode.operators.aggregate.aggregator import Aggregator
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.operator import AggregateOperator
from mixedmode.operators.interface import (
    KEY_COLUMN,
    Batch,
    Folded,
    OperatorAttributes,
    OperatorTraits,
    SubtaskContext,
)
from mixedmode.operators.tables import column_of
from mixedmode.sort import Combine
from mixedmode.state import StateDescriptor


@dataclass(frozen=True, slots=True)
class FinalAggregateOperator:
    """Aggregate by a key that has the bounds of a window. Each result is emitted once, in the epoch of its rows.

    `aggregate`: the operator that folds and merges the rows; the input is no changelog.
    """

    aggregate: AggregateOperator

    attributes = OperatorAttributes()
    traits = OperatorTraits(emits_final_windows=True)

    @property
    def aggregator(self) -> Aggregator:
        """The functions of the step."""
        return self.aggregate.aggregator

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """None: no row of a key comes after the epoch of its first row."""
        return ()

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """The partial aggregates."""
        return self.aggregate.input_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """The key columns."""
        return self.aggregate.output_key

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """The key columns, then the results."""
        return self.aggregate.output_fields

    @property
    def side_outputs(self) -> Mapping[str, tuple[pa.Field, ...]]:
        """None."""
        return {}

    @property
    def combine(self) -> Combine | None:
        """The function that merges partials of a key in the sorter."""
        return self.aggregate.combine

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Return one partial per distinct key of the batch. No row is late: its window has just fired."""
        return self.aggregate.fold(batch, late_us=late_us, max_parallelism=max_parallelism)

    def due(self, context: SubtaskContext) -> Iterator[pa.Table]:
        """Yield nothing: the operator has no state."""
        return self.aggregate.due(context)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[KeyedChanges]:
        """Yield the result of each key of the sorted partials, as inserts."""
        del context
        for table in tables:
            if table.num_rows:
                yield self._results(table.combine_chunks())

    def _results(self, table: pa.Table) -> KeyedChanges:
        count = table.num_rows
        return KeyedChanges(
            names=tuple(field.name for field in self.output_fields),
            keys=decode_keys(column_of(table, KEY_COLUMN), self.aggregate.key_schema),
            existed=np.zeros(count, np.bool_),
            exists=np.ones(count, np.bool_),
            results=self.aggregator.results([column_of(table, field.name) for field in self.input_fields]),
            previous=None,
        )
