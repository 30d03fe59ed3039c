"""Reads published files of any format, with the types of the output's description.

JSON and CSV have few types, so values are converted to the described types; so are values in the names of folders.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError
from mixedmode.sinks.arrow_memory import reader_of
from mixedmode.sinks.column_types import type_of
from mixedmode.sinks.csv_lines import read_csv_rows
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.json_rows import read_json_rows
from mixedmode.sinks.partitions import folder_value
from mixedmode.sinks.publish import OutputDescription

OP_COLUMN = "_op"
_GZIP_WBITS = zlib.MAX_WBITS | 16


class FileGoneError(Exception):
    """A published file was deleted after the folder was listed, because a compaction has merged it. List again."""


def fields_of(description: OutputDescription) -> list[pa.Field]:
    """Return the columns of an output; the type is null for rare types."""
    return [pa.field(column.name, type_of(column.type) or pa.null()) for column in description.columns]


def read_rows(store: ObjectStore, path: str, description: OutputDescription) -> pa.Table:
    """Return the rows of a published file, with the columns that only its folder name has, then `_op` (if any) and
    `_epoch`.

    Raises FileGoneError if the file no longer exists, and CorruptStateError if it is not whole.
    """
    fields = fields_of(description)
    with whole_file(path):
        data = unpacked(store, path)
        if description.format == "parquet":
            rows = pq.read_table(reader_of(data))
        else:
            rows = read_lines(data, description.format, fields)
    return with_folder_columns(rows, path, fields)


@contextmanager
def whole_file(path: str) -> Iterator[None]:
    """Raise CorruptStateError if the code in the block finds that it reads a damaged file."""
    try:
        yield
    except (pa.ArrowException, zlib.error, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk
        msg = (
            f"a file of this output is damaged: it was whole when it was published. Restore it from a copy. file={path}"
            f", found={' '.join(str(error).split())}"
        )
        raise CorruptStateError(msg) from error


def read_lines(data: bytes, file_format: str, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows of a JSON or CSV file."""
    every = [*fields, pa.field(OP_COLUMN, pa.string()), pa.field(EPOCH_COLUMN, pa.int64())]
    return read_csv_rows(data, every) if file_format == "csv" else read_json_rows(data, every)


def unpacked(store: ObjectStore, path: str) -> bytes:
    """Return the bytes of a published file, decompressed if it is text.
    Raises FileGoneError if the file no longer exists.
    """
    data = store.get(path)
    if data is None:
        raise FileGoneError(path)
    return gunzipped(data) if path.endswith(".gz") else data


def gunzipped(data: bytes) -> bytes:
    """Return the decompressed bytes of one gzip file or of several concatenated gzip files.

    Raises zlib.error if they are damaged, or cut short.
    """
    pieces = []
    while data:
        unpacker = zlib.decompressobj(_GZIP_WBITS)
        pieces.append(unpacker.decompress(data) + unpacker.flush())
        if not unpacker.eof:
            msg = "the compressed data are cut short"
            raise zlib.error(msg)
        data = unpacker.unused_data
    return b"".join(pieces)


def with_folder_columns(rows: pa.Table, path: str, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows with the columns of the output in order, adding those that only the folder's name has."""
    file = output_paths.parse_output_path(path)
    assert file is not None, path
    types = {field.name: field.type for field in fields}
    for folder in file.folder.split("/")[:-1]:
        name, text = folder_value(folder)
        if name in types and name not in rows.column_names:  # skips at_day, which is not a column of the output
            value = pa.scalar(text, pa.string()).cast(types[name])
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    rest = [name for name in (OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names]
    return rows.select([*(field.name for field in fields if field.name in rows.column_names), *rest])
