"""A task that returns the keys of one side of a join, for the map tasks of the other side (tasks/partners.py)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.interface import KEY_COLUMN, SIDE_COLUMN
from mixedmode.tasks.blocks import blocks_of, decode_block
from mixedmode.tasks.exchange import BlockKind, MapSide, block_batch, failure_batch
from mixedmode.tasks.failures import decode_failure, report_failures
from mixedmode.tasks.notes import SILENT

__all__ = ["KeysOfSide", "keys_in"]


@dataclass(frozen=True, slots=True)
class KeysOfSide:
    """The task. It gets the rows that `map_side` gets, and yields blocks of keys, each at most once a slice of rows."""

    map_side: MapSide
    side: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one task; as its last one an error, if there was one."""
        return report_failures(self._blocks(batches), failure_batch)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in self.map_side.slices(batches, SILENT.of_task("map", "")):
            folded = self.map_side.folded(rows)
            keys = folded.filter(pc.equal(folded.column(SIDE_COLUMN), self.side)).column(KEY_COLUMN).unique()
            for block in blocks_of(pa.table({KEY_COLUMN: keys})):
                yield block_batch(self.side, BlockKind.ROWS, block)


def keys_in(blocks: Iterable[tuple[str, bytes]]) -> pa.Array | None:
    """Return the keys in (kind, block) of all tasks, each once; None without blocks. Raise the error of a task."""
    found = []
    for kind, block in blocks:
        if kind == BlockKind.FAILURE:
            raise decode_failure(block)
        found.append(decode_block(pa.py_buffer(block)))
    return pa.concat_tables(found).column(KEY_COLUMN).unique() if found else None
