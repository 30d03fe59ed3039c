"""The operator of a step whose key has the bounds of final windows: each key has its rows in one epoch, and no state.

An upstream step emits all rows of the windows with one end in one epoch. So a key that has the bounds of the window
gets all of its rows in that epoch, and what another operator makes of them is final. Source: window aggregation and
window top-n in Flink's table-valued functions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from mixedmode.operators.interface import (
    Batch,
    Changes,
    Folded,
    KeyedOperator,
    OperatorAttributes,
    OperatorBase,
    OperatorTraits,
    SideRows,
    SubtaskContext,
)
from mixedmode.sort import Combine
from mixedmode.state import SingleKeyBackend

__all__ = ["FinalOperator"]


@dataclass(frozen=True, slots=True)
class FinalOperator(OperatorBase):
    """Runs `operator` in each epoch as if it were the only one. Every row is emitted once, as an insert."""

    operator: KeyedOperator

    traits = OperatorTraits(emits_windows=True)

    @property
    def attributes(self) -> OperatorAttributes:
        """Those of the operator."""
        return self.operator.attributes

    @property
    def input_fields(self) -> tuple[pa.Field, ...]:
        """Those of the operator."""
        return self.operator.input_fields

    @property
    def output_key(self) -> tuple[pa.Field, ...]:
        """That of the operator."""
        return self.operator.output_key

    @property
    def output_fields(self) -> tuple[pa.Field, ...]:
        """Those of the operator."""
        return self.operator.output_fields

    @property
    def combine(self) -> Combine | None:
        """That of the operator."""
        return self.operator.combine

    def fold(self, batch: Batch, *, late_us: int, max_parallelism: int) -> Folded:
        """Fold as the operator does. No row is late: its window has just fired."""
        return self.operator.fold(batch, late_us=late_us, max_parallelism=max_parallelism)

    def process(self, tables: Iterator[pa.Table], context: SubtaskContext) -> Iterator[Changes | SideRows]:
        """Process the tables with a backend that has no state and keeps none."""
        return self.operator.process(tables, replace(context, backend=SingleKeyBackend(None)))
