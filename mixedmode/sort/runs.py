"""Sorted runs on local disk: the sorter spills them, and the merge reads them.

    file  = b"MMRUN" | format version u8 | block ... | end
    block = payload bytes u64 | xxh3_64 of the payload u64 | payload: an Arrow IPC stream of one compressed record batch
    end   = 0 u64 | rows in the file u64

Each block can be read alone. So a reader holds one block at a time, and a block that is cut off or
changed is detected before Arrow reads it. Numbers are big-endian. One sorter writes a run once, and the same process
reads it. A run is scratch data: no manifest names it, and no restore reads it.

Invariants (tests/sort/test_runs.py):
  I1  reading returns exactly the rows that were written, or raises CorruptStateError
  I2  a block holds at most about twice the bytes asked for, or one row
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import xxhash

from mixedmode.errors import CorruptStateError
from mixedmode.sort.tables import slices
from mixedmode.system_errors import local_disk_error, too_many_files

_MAGIC = b"MMRUN\x01"
_FRAME = struct.Struct(">QQ")
_CODEC: Literal["lz4"] = "lz4"  # spilling is bound by the CPU: zstd saves a third of the bytes for three times the time


@dataclass(frozen=True, slots=True)
class Run:
    """One sorted run: its path, and the numbers of rows and bytes written."""

    path: Path
    rows: int
    file_bytes: int


def write_run(path: Path, tables: Iterable[pa.Table], *, block_bytes: int) -> Run:
    """Write sorted tables of one schema as one run, in blocks of about `block_bytes` before compression.

    Raises RetryableError if the disk is full or cannot be written to.
    """
    rows, file_bytes = 0, len(_MAGIC) + _FRAME.size
    try:
        with path.open("wb") as file:
            file.write(_MAGIC)
            for table in tables:
                for part in slices(table, block_bytes):
                    payload = _encode(part)
                    file.write(_FRAME.pack(len(payload), xxhash.xxh3_64_intdigest(payload)))
                    file.write(payload)
                    rows += part.num_rows
                    file_bytes += _FRAME.size + len(payload)
            file.write(_FRAME.pack(0, rows))
    except OSError as error:
        values, more_memory = f"path={path}, written_bytes={file_bytes}", "raise `state.backlog.sort-memory`"
        raise local_disk_error(error, "what exceeds the memory of a sort", values, other_way=more_memory) from error
    return Run(path, rows, file_bytes)


def read_run(path: Path) -> Iterator[pa.Table]:
    """Yield the blocks of a run, one at a time, in order.

    Raises CorruptStateError if the file is not as `write_run` wrote it: cut off, changed or missing.
    """
    rows = 0
    try:
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            if file.read(len(_MAGIC)) != _MAGIC:
                raise CorruptStateError(_damaged(path, rows, "it does not begin as a run of this version"))
            while (payload := _next_payload(file, file_bytes, path, rows)) is not None:
                table = _decode(payload)
                rows += table.num_rows
                yield table
    except (OSError, pa.ArrowException) as error:
        of_limit = too_many_files(error, f"path={path}")
        raise of_limit or CorruptStateError(_damaged(path, rows, "it cannot be read")) from error


def _next_payload(file: BufferedReader, file_bytes: int, path: Path, rows: int) -> bytes | None:
    """Return the next block's payload, verified; None at the end mark."""
    frame = file.read(_FRAME.size)
    if len(frame) < _FRAME.size:
        raise CorruptStateError(_damaged(path, rows, "it ends before its end mark"))
    length, check = _FRAME.unpack(frame)
    if length == 0:
        if check != rows:
            raise CorruptStateError(_damaged(path, rows, f"its end mark counts {check} rows"))
        return None
    left = file_bytes - file.tell()  # checked before reading, because a damaged length may exceed the memory
    payload = file.read(length) if length <= left else b""
    if len(payload) < length or xxhash.xxh3_64_intdigest(payload) != check:
        raise CorruptStateError(_damaged(path, rows, "a block is cut off or its checksum differs"))
    return payload


def _encode(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_CODEC, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    exporter: Any = sink.getvalue()
    return memoryview(exporter)


def _decode(payload: bytes) -> pa.Table:
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(pa.py_buffer(payload), options=options) as reader:
        return reader.read_all()


def _damaged(path: Path, rows: int, reason: str) -> str:
    return (
        "a sorted run that this sort spilled to local disk is damaged, so the sort cannot go on. Nothing is committed. "
        "Check the disk, then start again; a job resumes from its last checkpoint. "
        f"path={path}, rows_read={rows}, reason={reason}"
    )
