"""File outputs: a task writes the files of one epoch and subtask to the sink's staging folder, where readers ignore
them.

Without partitions and without a size limit, there is one file. With either, the parts of a folder are numbered. A new
part begins when a file is large enough, or when a file was closed to limit the number of open files. The rows of a
folder keep their order across its parts. Names depend on epoch, subtask, folder and part only, so a repeat of the
epoch produces the same names.

Parquet keeps every type. json_lines.py and csv_lines.py define how JSON and CSV represent values.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.checkpoint.uploads import Upload, Uploads
from mixedmode.config.partitions import Partition
from mixedmode.sinks.partitions import FolderRows
from mixedmode.sinks.row_files import Compression, FileFormat, RowFile, extension_of, open_row_file
from mixedmode.system_errors import local_disk_error

__all__ = ["EPOCH_COLUMN", "OPEN_FILES_MAX", "FileFormat", "FileLayout", "OutputWriter", "SinkTask"]

EPOCH_COLUMN = "_epoch"
OPEN_FILES_MAX = 64  # per output of a subtask; each open file keeps a row group or a compressor in memory
_SLICES_PER_FILE = 4  # a file may exceed its limit by one slice


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of an output in files. `compression` must be one that the format has; None: the default of the
    format.

    `max_file_bytes`: when a file has reached this size, a new file is begun; None: no limit.
    """

    compression: Compression | None = None
    partitions: tuple[Partition, ...] = ()
    max_file_bytes: int | None = None

    @property
    def has_parts(self) -> bool:
        """Return whether a subtask may write several files in one epoch."""
        return bool(self.partitions) or self.max_file_bytes is not None


@dataclass(frozen=True, slots=True)
class SinkTask:
    """The place where a task stages its output, and the format and layout."""

    url: str
    format: FileFormat
    layout: FileLayout = FileLayout()

    @property
    def extension(self) -> str:
        """The extension of the file names."""
        return extension_of(self.format, self.compression)

    @property
    def compression(self) -> Compression:
        """The compression that the job asks for, or the default of the format."""
        return self.layout.compression or ("snappy" if self.format == "parquet" else "none")


@dataclass(slots=True)
class _Part:
    """One local file; `file` is None once the file is complete. `upload` stores it as `staged_path`."""

    folder: str
    number: int
    path: Path
    staged_path: str
    upload: Upload
    file: RowFile | None
    rows: int = 0


@dataclass(slots=True)
class _Folder:
    """The parts of one folder; only the last part may be open."""

    parts: list[_Part] = field(default_factory=list)

    @property
    def open_part(self) -> _Part | None:
        return self.parts[-1] if self.parts and self.parts[-1].file is not None else None


class OutputWriter:
    """Writes one output of one subtask in one epoch; creates a file only if there are rows.

    A file is given to `uploads` when it is opened, so that parts of it may be stored while the task goes on.
    """

    def __init__(
        self, sink: SinkTask, epoch: Epoch, subtask: int, folder: Path, uploads: Uploads, unique: str, name: str = ""
    ) -> None:
        """`folder`: a local folder, which other outputs may use, too. `unique`: of the attempt, as `paths.attempt`
        returns it. `name`: of the output, "" for the main one.
        """
        self._sink = sink
        self._uploads, self._unique = uploads, unique
        self._epoch = epoch
        self._subtask = subtask
        self._name = name
        self._local = folder / f"output{'-' if name else ''}{quote(name, safe='')}"
        self._folders: dict[str, _Folder] = {}
        self._count = 0
        self._open: dict[str, None] = {}  # folders with an open part, least recently written first
        self._partitioned = FolderRows(sink.layout.partitions) if sink.layout.partitions else None

    def write(self, table: pa.Table) -> None:
        """Append rows, and add the epoch to each as `_epoch`. Raises RetryableError if the local disk refuses the
        rows, InvalidJobError for a row whose partition has no valid name.
        """
        if table.num_rows == 0:
            return
        table = table.append_column(EPOCH_COLUMN, pa.array([self._epoch], pa.int64()).take(_zeros(table.num_rows)))
        for folder, rows in [("", table)] if self._partitioned is None else self._partitioned.add(table):
            self._append(folder, rows)

    def end(self) -> None:
        """Complete the files, and begin to store those that are not being stored yet. Nothing is written afterwards.

        May be repeated.
        """
        for folder, rows in () if self._partitioned is None else self._partitioned.rest():
            self._append(folder, rows)
        for inside in self._folders.values():
            for part in inside.parts:
                self._close(part)

    def finish(self) -> tuple[StagedFile, ...]:
        """Wait until the files are stored under names of this attempt, and return them; () if there were no rows.

        Raises RetryableError if the store fails.
        """
        self.end()
        return tuple(self._stored(part) for name in sorted(self._folders) for part in self._folders[name].parts)

    def _append(self, folder: str, table: pa.Table) -> None:
        limit = self._sink.layout.max_file_bytes
        for rows in [table] if limit is None else _slices(table, limit):
            part = self._open_part(folder, rows.schema)
            assert part.file is not None, part
            with _on_local_disk(part.path):
                part.file.write(rows)
            part.rows += rows.num_rows
            if limit is not None and part.file.bytes_written >= limit:
                self._close(part)

    def _open_part(self, folder: str, schema: pa.Schema) -> _Part:
        found = self._folders.setdefault(folder, _Folder())
        if found.open_part is None:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(self._folders[next(iter(self._open))].parts[-1])
            found.parts.append(self._new_part(folder, len(found.parts), schema))
        self._open.pop(folder, None)
        self._open[folder] = None
        return found.parts[-1]

    def _new_part(self, folder: str, number: int, schema: pa.Schema) -> _Part:
        count, extension = self._count, self._sink.extension
        self._count += 1
        path = Path(f"{self._local}{f'+{count}' if count else ''}.{extension}")
        unique = f"{self._unique}p{count}" if count else self._unique
        staged = output_paths.staged_path(self._epoch, self._subtask, unique, extension)
        with _on_local_disk(path):
            file = open_row_file(path, schema, self._sink.format, self._sink.compression)
        upload = self._uploads.begin(ObjectStore(self._sink.url), path, staged)
        return _Part(folder, number, path, staged, upload, file)

    def _close(self, part: _Part) -> None:
        if part.file is not None:
            with _on_local_disk(part.path):
                part.file.close()
            part.file = None
            part.upload.end()
            del self._open[part.folder]

    def _stored(self, part: _Part) -> StagedFile:
        stored = part.upload.stored()
        number = part.number if self._sink.layout.has_parts else None
        return StagedFile(
            staged_path=part.staged_path,
            final_path=output_paths.final_path(
                self._epoch, self._subtask, self._sink.extension, folder=part.folder, part=number
            ),
            bytes=stored.bytes,
            rows=part.rows,
            checksum=stored.checksum,
            sink=self._name,
        )


@contextmanager
def _on_local_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise local_disk_error(error, "the output", f"path={path}") from error


def _slices(table: pa.Table, max_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows in slices of about a quarter of `max_bytes`, by their size in memory."""
    rows = max(1, table.num_rows * max_bytes // max(1, _SLICES_PER_FILE * table.nbytes))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _zeros(count: int) -> pa.Array:
    return pa.array([0], pa.int8()).take(pa.nulls(count, pa.int64()).fill_null(0))
