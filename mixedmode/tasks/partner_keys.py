"""A task that returns hashes of the keys of one side of a join, for map tasks of the other one (tasks/partners.py)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.hash import xxhash64
from mixedmode.operators.interface import KEY_COLUMN, SIDE_COLUMN
from mixedmode.operators.tables import column_of
from mixedmode.tasks.block_rows import BlockKind, block_batch, failure_batch
from mixedmode.tasks.blocks import blocks_of, decode_block
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.failures import decode_failure, report_failures
from mixedmode.tasks.notes import SILENT

__all__ = ["KeysOfSide", "hashes_in"]


@dataclass(frozen=True, slots=True)
class KeysOfSide:
    """The task. It gets the rows that `map_side` gets, and yields blocks of hashes, each once for a slice of rows."""

    map_side: MapSide
    side: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one task; as its last one an error, if there was one."""
        return report_failures(self._blocks(batches), failure_batch)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in self.map_side.slices(batches, SILENT.of_task("map", "")):
            folded = self.map_side.folded(rows)
            of_side = folded.filter(pc.equal(folded.column(SIDE_COLUMN), self.side))
            hashes = np.unique(xxhash64(column_of(of_side, KEY_COLUMN)))
            for block in blocks_of(pa.table({KEY_COLUMN: hashes})):
                yield block_batch(self.side, BlockKind.ROWS, block)


def hashes_in(blocks: Iterable[tuple[str, bytes]]) -> npt.NDArray[np.uint64]:
    """Return the hashes (n,) in (kind, block) of all tasks, each once. Raise the error of a task."""
    found = [np.empty(0, np.uint64)]
    for kind, block in blocks:
        if kind == BlockKind.FAILURE:
            raise decode_failure(block)
        found.append(decode_block(pa.py_buffer(block)).column(KEY_COLUMN).to_numpy())
    return np.unique(np.concatenate(found))
