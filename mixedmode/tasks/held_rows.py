"""Rows of a stage in blocks whose places the driver holds: how its subtasks make them, and how tasks read them.

Where all tasks share a disk, and tasks compute the SQL of all readers of a stage, its rows need no frame of Spark on
their way. A reader's tasks read them from the stage's files, as they read the files of a source.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.expressions import Query, evaluate_here
from mixedmode.profile import Profile
from mixedmode.tasks.block_files import BlockReader, in_files, place_bytes
from mixedmode.tasks.block_rows import BlockKind, block_batch
from mixedmode.tasks.blocks import blocks_of, decode_block

__all__ = ["HeldBlock", "HeldPieces", "RowBlocks"]


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """Makes blocks of the rows of a stage, large ones in files of `folder`."""

    folder: str

    def blocks(self, rows: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks. The subtask in them means nothing."""
        made = (block_batch(0, BlockKind.ROWS, block) for table in rows for block in blocks_of(table))
        return in_files(made, self.folder, Profile())


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """A block, or its place in a file."""

    kind: str
    content: bytes

    @property
    def size(self) -> int:
        """Return the number of bytes of the block."""
        return place_bytes(self.content) if self.kind == BlockKind.PLACE else len(self.content)


@dataclass(frozen=True, slots=True)
class HeldPieces:
    """The blocks that a task reads, and how the reader's rows are made of them."""

    queries: tuple[Query, ...]
    held: tuple[HeldBlock, ...]

    @property
    def input_bytes(self) -> float:
        """Return 0: nothing here is input of the job, whose bytes are told to users."""
        return 0.0

    def rows(self, _tell: Callable[[float], object]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are made of the blocks. Tell no bytes of the job's input."""
        return evaluate_here(self.queries, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with ExitStack() as opened:
            files = BlockReader(opened)
            for one in self.held:
                block = files.read(one.content)[1] if one.kind == BlockKind.PLACE else one.content
                yield from decode_block(block).to_batches()
