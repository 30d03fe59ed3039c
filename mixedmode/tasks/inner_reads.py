"""A task of a reader over rows of a stage that stay in Arrow: it makes its own rows of them, without Spark.

If a stage has one reader, the subtasks of the stage run the map side of the reader themselves. So rows are folded where
they are made, and only folded rows are persisted, and read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.expressions import Query, evaluate_here
from mixedmode.profile import Profile
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.partner_keys import KeysOfSide
from mixedmode.tasks.rows import RowsTask

__all__ = ["InnerFold", "InnerRead"]


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
        return self.task(evaluate_here(self.queries, _rows_in(batches)))


@dataclass(frozen=True, slots=True)
class InnerFold:
    """The map side of the only reader of a stage, in a subtask of the stage.  queries: see InnerRead."""

    map_side: MapSide
    queries: tuple[Query, ...]

    def blocks(self, rows: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of the reader that are made of rows of the stage."""
        profile, note = Profile(), self.map_side.note()
        batches = self._rows_made(rows, profile)
        yield from self.map_side.blocks_of(self.map_side.slices(batches, note), profile, note)

    def _rows_made(self, rows: Iterator[pa.Table], profile: Profile) -> Iterator[pa.RecordBatch]:
        for table in rows:
            with profile.stage("read input"):
                made = list(evaluate_here(self.queries, table.to_batches()))
            yield from made


def _rows_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(0):
            yield from decode_block(block.as_buffer()).to_batches()
