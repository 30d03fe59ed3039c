"""Local files that a task writes, in any format: opened for the first rows, and able to report their size."""

import zlib
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from mixedmode.sinks.csv_lines import csv_lines
from mixedmode.sinks.json_lines import json_lines
from mixedmode.sinks.parquet_encodings import encodings_of

FileFormat = Literal["parquet", "json", "csv"]
Compression = Literal["snappy", "zstd", "gzip", "none"]

_GZIP_WBITS = zlib.MAX_WBITS | 16  # gzip's header and trailer around the deflated bytes
_GZIP_LEVEL = 6


class RowFile(Protocol):
    """A file that is being written."""

    @property
    @abstractmethod
    def bytes_written(self) -> int:
        """The size of the file so far; of compressed data, the bytes that have left the compressor."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Append rows."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""


def extension_of(file_format: FileFormat, compression: Compression) -> str:
    """Return the extension of a name, without a dot; readers of text detect compression by it."""
    return f"{file_format}.gz" if compression == "gzip" and file_format != "parquet" else file_format


def open_row_file(path: Path, schema: pa.Schema, file_format: FileFormat, compression: Compression) -> RowFile:
    """Open a new local file for rows of `schema`."""
    if file_format == "parquet":
        return _ParquetFile(path, schema, compression)
    lines = _JsonLines() if file_format == "json" else _CsvLines()
    return _TextFile(path, lines, is_compressed=compression == "gzip")


class _ParquetFile(RowFile):
    """A Parquet file; its first rows decide how its columns are encoded."""

    def __init__(self, path: Path, schema: pa.Schema, compression: Compression) -> None:
        self._file = pa.OSFile(str(path), "wb")
        self._schema = schema
        self._compression = compression
        self._writer: pq.ParquetWriter | None = None

    @property
    @override
    def bytes_written(self) -> int:
        return int(self._file.tell())

    @override
    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._opened(table)
        self._writer.write_table(table)

    @override
    def close(self) -> None:
        writer = self._opened(self._schema.empty_table()) if self._writer is None else self._writer
        writer.close()
        self._file.close()

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        found = encodings_of(first, is_compressed=self._compression != "none")
        return pq.ParquetWriter(
            self._file,
            self._schema,
            compression=self._compression,
            use_dictionary=found.dictionaries,
            column_encoding=found.others,
        )


class _JsonLines:
    def __call__(self, table: pa.Table) -> list[pa.Buffer]:
        return list(json_lines(table))


class _CsvLines:
    def __init__(self) -> None:
        self._is_first = True

    def __call__(self, table: pa.Table) -> list[pa.Buffer]:
        lines = csv_lines(table, header=self._is_first)
        self._is_first = False
        return [lines]


class LineFile:
    """A local file of bytes, compressed or not."""

    def __init__(self, path: Path, *, is_compressed: bool) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WBITS) if is_compressed else None

    @property
    def bytes_written(self) -> int:
        """The bytes in the file so far; of compressed data, those that have left the compressor."""
        return self._file.tell()

    def write(self, piece: bytes | pa.Buffer) -> None:
        """Append bytes."""
        self._file.write(piece if self._compressor is None else self._compressor.compress(piece))

    def close(self) -> None:
        """Finish the file."""
        if self._compressor is not None:
            self._file.write(self._compressor.flush())
        self._file.close()


class _TextFile(RowFile):
    def __init__(self, path: Path, lines: Callable[[pa.Table], list[pa.Buffer]], *, is_compressed: bool) -> None:
        self._file = LineFile(path, is_compressed=is_compressed)
        self._lines = lines

    @property
    @override
    def bytes_written(self) -> int:
        return self._file.bytes_written

    @override
    def write(self, table: pa.Table) -> None:
        for piece in self._lines(table):
            self._file.write(piece)

    @override
    def close(self) -> None:
        self._file.close()
