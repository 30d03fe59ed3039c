"""File outputs: a task writes one file per epoch and subtask into the sink's staging folder, unseen by readers.

Parquet keeps every type. JSON is one object a line: decimals, dates and timestamps as strings, binary as base64,
NULL as null, NaN and infinities as the strings that Spark reads as such ("NaN", "Infinity", "-Infinity"), maps as
objects.
"""

import base64
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import RetryableError

EPOCH_COLUMN = "_epoch"
FileFormat = Literal["parquet", "json"]


@dataclass(frozen=True, slots=True)
class SinkTask:
    """Where a task stages its output."""

    url: str
    format: FileFormat


class _Rows(Protocol):
    def write(self, table: pa.Table) -> None: ...
    def close(self) -> None: ...


class OutputWriter:
    """One output of one subtask in one epoch; a file exists only if there are rows."""

    def __init__(self, sink: SinkTask, epoch: Epoch, subtask: int, folder: Path, name: str = "") -> None:
        """`name` is the output's, "" for the main one; `folder`, a local one, may be that of other outputs, too."""
        self._sink = sink
        self._epoch = epoch
        self._subtask = subtask
        self._name = name
        self._path = folder / f"output{'-' if name else ''}{quote(name, safe='')}.{sink.format}"
        self._rows: _Rows | None = None
        self._row_count = 0

    def write(self, table: pa.Table) -> None:
        """Append rows, each with the epoch in `_epoch`. Raises RetryableError if the local disk does not take them."""
        if table.num_rows == 0:
            return
        table = table.append_column(EPOCH_COLUMN, pa.array([self._epoch], pa.int64()).take(_zeros(table.num_rows)))
        with _on_local_disk(self._path):
            if self._rows is None:
                is_parquet = self._sink.format == "parquet"
                self._rows = _ParquetRows(self._path, table.schema) if is_parquet else _JsonRows(self._path)
            self._rows.write(table)
        self._row_count += table.num_rows

    def finish(self, unique: str) -> tuple[StagedFile, ...]:
        """Store the file under a name of this attempt, and say what it is; nothing without rows."""
        if self._rows is None:
            return ()
        with _on_local_disk(self._path):
            self._rows.close()
        staged = paths.staged_path(self._epoch, self._subtask, unique, self._sink.format)
        ObjectStore(self._sink.url).put_file(self._path, staged)
        return (
            StagedFile(
                staged_path=staged,
                final_path=paths.final_path(self._epoch, self._subtask, self._sink.format),
                bytes=self._path.stat().st_size,
                rows=self._row_count,
                checksum=file_checksum(self._path),
                sink=self._name,
            ),
        )


@contextmanager
def _on_local_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        msg = (
            "the local disk does not take the output of this epoch; nothing of it is committed. Free some space there, "
            "or set TMPDIR to another disk; then start the job again: it resumes from its last checkpoint. "
            f"path={path}"
        )
        raise RetryableError(msg) from error


class _ParquetRows:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class _JsonRows:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, table: pa.Table) -> None:
        for row in table.to_pylist(maps_as_pydicts="strict"):  # Spark's maps hold a key once
            self._file.write(json.dumps({name: _as_json(value) for name, value in row.items()}) + "\n")

    def close(self) -> None:
        self._file.close()


def _as_json(value: Any) -> Any:
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(_as_json(name)): _as_json(item) for name, item in value.items()}
    return value


def _zeros(count: int) -> pa.Array:
    return pa.array([0], pa.int8()).take(pa.nulls(count, pa.int64()).fill_null(0))
