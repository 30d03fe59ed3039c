"""A task of a reader over rows of a stage that stay in Arrow: it makes its own rows of them, without Spark."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.expressions import Query, evaluate
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.partner_keys import KeysOfSide
from mixedmode.tasks.rows import RowsTask

__all__ = ["InnerRead"]


@dataclass(frozen=True, slots=True)
class InnerRead:
    """A task over blocks of a stage's rows: the map side of a keyed stage, or one that writes an output.

    Spark calls it with batches of one column, of which each value is a block. `queries`: how the reader's rows are made
    of those in a block.
    """

    task: MapSide | RowsTask | KeysOfSide
    queries: tuple[Query, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task yields."""
        return self.task(evaluate(self.queries, _rows_in(batches)))


def _rows_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(0):
            yield from decode_block(block.as_buffer()).to_batches()
