"""Merges several published files of a folder into one local file, in their order, optionally without some rows.

Lines of JSON are copied unchanged; rows of Parquet and CSV are read and written again, in batches.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.sinks.files import SinkTask
from mixedmode.sinks.publish import OutputDescription
from mixedmode.sinks.read_files import fields_of, gunzipped, read_lines, whole_file
from mixedmode.sinks.row_files import Compression, LineFile, RowFile, open_row_file

_BATCH_ROWS = 250_000
_ROW_GROUP_BYTES = 64 * 1024 * 1024  # size in memory; a merged file has few and large row groups


class ChangedMeanwhileError(Exception):
    """A file was deleted or rewritten just before it was merged."""


class FileMerger:
    """A context manager; the file is complete when the block ends without an error."""

    def __init__(self, local: Path, path: str, task: SinkTask, description: OutputDescription) -> None:
        """local: the file to write. path: its published name, which determines whether text is compressed. task: of
        the output, which determines the settings of Parquet.
        """
        self._local = local
        self._description = description
        self._format = task.format
        is_gzip = path.endswith(".gz")
        self._compression: Compression = task.compression if task.format == "parquet" else "gzip" if is_gzip else "none"
        self._file: RowFile | None = None
        self._lines = LineFile(local, is_compressed=is_gzip) if task.format == "json" else None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    def add(self, fetched: Path, path: str, mask: npt.NDArray[np.bool_] | None) -> None:
        """Append the rows of a file: `fetched` is a local copy of the published `path`. mask: the rows to keep.

        Raises ChangedMeanwhileError if the mask does not belong to this file, and CorruptStateError if it is not whole.
        """
        with whole_file(path):
            self._add(fetched, path, mask)

    def _add(self, fetched: Path, path: str, mask: npt.NDArray[np.bool_] | None) -> None:
        if self._lines is not None:
            self._lines.write(_some_lines(_unpacked(fetched, path), mask))
            return
        for rows in self._tables(fetched, path, mask):
            if self._file is None:
                self._file = open_row_file(self._local, rows.schema, self._format, self._compression)
            self._waiting.append(rows)
            self._waiting_bytes += rows.nbytes
            if self._waiting_bytes >= _ROW_GROUP_BYTES:
                self._write_waiting()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._file is not None:
            if kind is None:
                self._write_waiting()
            self._file.close()

    def _write_waiting(self) -> None:
        assert self._file is not None, "rows wait for a file"
        if self._waiting:
            self._file.write(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_bytes = [], 0

    def _tables(self, fetched: Path, path: str, mask: npt.NDArray[np.bool_] | None) -> Iterator[pa.Table]:
        """Yield the rows to keep; at least one table, which carries the columns."""
        if self._description.format == "csv":
            rows = read_lines(_unpacked(fetched, path), "csv", fields_of(self._description))
            _check(rows.num_rows, mask)
            yield rows if mask is None else rows.filter(pa.array(mask))
            return
        file = pq.ParquetFile(fetched)
        _check(file.metadata.num_rows, mask)
        done = 0
        for batch in file.iter_batches(_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            yield rows if mask is None else rows.filter(pa.array(mask[done : done + rows.num_rows]))
            done += rows.num_rows
        if done == 0:
            yield file.schema_arrow.empty_table()


def _unpacked(fetched: Path, path: str) -> bytes:
    data = fetched.read_bytes()
    return gunzipped(data) if path.endswith(".gz") else data


def _some_lines(data: bytes, mask: npt.NDArray[np.bool_] | None) -> bytes:
    if mask is None:
        return data
    lines = data.splitlines(keepends=True)
    _check(len(lines), mask)
    return b"".join(lines[number] for number in np.flatnonzero(mask))


def _check(rows: int, mask: npt.NDArray[np.bool_] | None) -> None:
    if mask is not None and len(mask) != rows:
        raise ChangedMeanwhileError
