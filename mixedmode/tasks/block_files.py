"""Blocks in files: where all tasks run on one machine, Spark moves only the places of large blocks.

Spark's JVM copies what it moves several times on each side, compresses it, and writes it to files that it copies again.
Where Spark is one process, the tasks of an epoch share a disk. So a map task writes its blocks to a file of its own,
and each subtask reads those that are for it. On a cluster, and for small blocks, nothing changes.

The driver makes a folder for the files of an epoch, and deletes it after the epoch. They are scratch data, as spilled
runs are: no manifest names them.

Invariants (tests/tasks/test_block_files.py):
  I1  a subtask gets the same blocks, whether they are in files or not, or an error is raised
  I2  small blocks are in no file
"""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import xxhash

from mixedmode.errors import CorruptStateError
from mixedmode.profile import Profile
from mixedmode.system_errors import local_disk_error, too_many_files
from mixedmode.tasks.block_rows import BlockKind, block_batch

__all__ = ["BLOCK_BYTES_MIN", "BlockReader", "in_files", "place_bytes"]

BLOCK_BYTES_MIN = 4 * 1024  # the driver may hold smaller ones, and one or more come of each slice of input


def in_files(blocks: Iterator[pa.RecordBatch], folder: str, profile: Profile) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of one task; in place of each large one its place in a file of the folder.

    Raise RetryableError if the disk is full or cannot be written to. profile: gets the time as that of making blocks.
    """
    with ExitStack() as opened:
        file = _File(Path(folder) / f"{uuid.uuid4().hex}.blocks", opened)
        for batch in blocks:
            subtask, kind, cell = (column[0] for column in batch.columns)
            block = cell.as_buffer()
            if len(block) < BLOCK_BYTES_MIN:
                yield batch
                continue
            with profile.stage("make blocks"):
                place = file.append(kind.as_py(), block)
            yield block_batch(subtask.as_py(), BlockKind.PLACE, place)


class _File:
    """The file of one map task. It exists once it has a block."""

    def __init__(self, path: Path, opened: ExitStack) -> None:
        self._path = path
        self._opened = opened
        self._file: IO[bytes] | None = None
        self._end = 0

    def append(self, kind: str, block: Any) -> bytes:
        """Append a block, and return its place."""
        data = memoryview(block)
        try:
            if self._file is None:
                self._file = self._opened.enter_context(self._path.open("wb", buffering=0))
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError as error:
            raise local_disk_error(error, "the rows of an epoch", f"path={self._path}") from error
        place = [kind, str(self._path), self._end, len(data), xxhash.xxh3_64_intdigest(data)]
        self._end += len(data)
        return json.dumps(place).encode()


def place_bytes(place: bytes) -> int:
    """Return the number of bytes of the block at a place."""
    size: int = json.loads(place)[3]
    return size


class BlockReader:
    """Reads blocks by their places.  opened: closes the files."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._files: dict[str, IO[bytes]] = {}

    def read(self, place: bytes) -> tuple[BlockKind, pa.Buffer]:
        """Return a block and its kind. Raise CorruptStateError if it is not as it was written."""
        kind, path, start, size, digest = json.loads(place)
        try:
            if path not in self._files:
                file = Path(path)
                self._files[path] = self._opened.enter_context(file.open("rb", buffering=0))
            data = os.pread(self._files[path].fileno(), size, start)
        except OSError as error:
            raise too_many_files(error, f"path={path}") or CorruptStateError(_damaged(path, str(error))) from error
        if len(data) != size or xxhash.xxh3_64_intdigest(data) != digest:
            raise CorruptStateError(_damaged(path, "a block is cut off or its checksum differs"))
        return BlockKind(kind), pa.py_buffer(data)


def _damaged(path: str, reason: str) -> str:
    return (
        "a file with rows on their way to their subtask is damaged, or was removed. Nothing is committed. Check the "
        "disk of the folder for temporary files, and that nothing removes files there; then start the job again: it "
        f"resumes from its last checkpoint. path={path}, reason={reason}"
    )
