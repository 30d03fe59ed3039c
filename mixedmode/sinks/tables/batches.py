"""Reads staged files as batches of bounded size, in order. Each key is in a batch once, with its last row."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import StagedFile
from mixedmode.errors import CorruptStateError
from mixedmode.keys import group_codes
from mixedmode.operators.tables import column_of
from mixedmode.sinks.tables.database import OP_COLUMN, Shape

__all__ = ["batches_of"]

#: limits of a batch; memory holds a batch several times, as Arrow and in the form of the database
_ROWS_MAX, _BYTES_MAX = 65_536, 16 * 1024 * 1024
_ROWS_READ = 8_192


def batches_of(store: ObjectStore, files: Sequence[StagedFile], shape: Shape) -> Iterator[pa.Table]:
    """Yield tables with the columns of `shape`, and `_op` if it has a key.
    Raises CorruptStateError if a file is missing.
    """
    names = [*shape.names, OP_COLUMN] if shape.key_columns else shape.names
    with temporary_folder("table-") as folder:
        for number, file in enumerate(files):
            local = folder / str(number)
            if not store.fetch_file(file.staged_path, local):
                raise CorruptStateError(_LOST.format(file=f"{store.url}/{file.staged_path}"))
            for rows in _read(local, names):
                yield _last_of_each_key(rows, shape.key_columns)
            local.unlink()


def _read(path: Path, names: Sequence[str]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(batch_size=_ROWS_READ, columns=list(names)):
            held.append(batch)
            rows, size = sum(b.num_rows for b in held), sum(b.nbytes for b in held)
            if rows + _ROWS_READ > _ROWS_MAX or size > _BYTES_MAX:
                yield _table(held, names)
                held = []
    if held:
        yield _table(held, names)


def _table(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches(batches).select(list(names)).combine_chunks()


def _last_of_each_key(rows: pa.Table, key_columns: Sequence[str]) -> pa.Table:
    if not key_columns:
        return rows
    groups = group_codes([column_of(rows, name) for name in key_columns])
    if len(groups.first_row) == rows.num_rows:
        return rows
    last = np.empty(len(groups.first_row), np.int64)
    last[groups.codes] = np.arange(rows.num_rows)  # the last assignment wins
    return rows.take(pa.array(np.sort(last))).combine_chunks()


_LOST = (
    "a committed output is gone, and the table does not have it: something deletes files of the checkpoint folder. "
    "Start the job again: it goes back to the checkpoint before, and writes the output anew. file={file}"
)
