"""Reads published files of any format, with the types of the output's description.

JSON and CSV have few types, so values are converted to the described types; so are values in the names of folders.
"""

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.sinks.csv_lines import read_csv_rows
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.partitions import folder_value
from mixedmode.sinks.publish import OutputDescription

OP_COLUMN = "_op"
_GZIP_WBITS = zlib.MAX_WBITS | 16
_PLAIN_TYPES: Mapping[str, pa.DataType] = {
    str(data_type): data_type
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.timestamp("us")),
    )
}
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[us, tz=(.+)\]")


class FileGoneError(Exception):
    """A published file was deleted after the folder was listed, because a compaction has merged it. List again."""


def fields_of(description: OutputDescription) -> list[pa.Field]:
    """Return the columns of an output; the type is null for nested and rare types."""
    return [pa.field(column.name, _type_of(column.type)) for column in description.columns]


def read_rows(store: ObjectStore, path: str, description: OutputDescription) -> pa.Table:
    """Return the rows of a published file, with the columns that only its folder name has, then `_op` (if any) and
    `_epoch`.

    Raises FileGoneError if the file no longer exists.
    """
    data = unpacked(store, path)
    fields = fields_of(description)
    if description.format == "parquet":
        rows = pq.read_table(pa.BufferReader(data))
    else:
        rows = read_lines(data, description.format, fields)
    return with_folder_columns(rows, path, fields)


def read_lines(data: bytes, file_format: str, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows of a JSON or CSV file."""
    every = [*fields, pa.field(OP_COLUMN, pa.string()), pa.field(EPOCH_COLUMN, pa.int64())]
    return read_csv_rows(data, every) if file_format == "csv" else _read_json(data, every)


def unpacked(store: ObjectStore, path: str) -> bytes:
    """Return the bytes of a published file, decompressed if it is text.
    Raises FileGoneError if the file no longer exists.
    """
    data = store.get(path)
    if data is None:
        raise FileGoneError(path)
    return gunzipped(data) if path.endswith(".gz") else data


def gunzipped(data: bytes) -> bytes:
    """Return the decompressed bytes of one gzip file or of several concatenated gzip files."""
    pieces = []
    while data:
        unpacker = zlib.decompressobj(_GZIP_WBITS)
        pieces.append(unpacker.decompress(data) + unpacker.flush())
        data = unpacker.unused_data
    return b"".join(pieces)


def with_folder_columns(rows: pa.Table, path: str, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows with the columns of the output in order, adding those that only the folder's name has."""
    file = paths.parse_output_path(path)
    assert file is not None, path
    types = {field.name: field.type for field in fields}
    for folder in file.folder.split("/")[:-1]:
        name, text = folder_value(folder)
        if name in types and name not in rows.column_names:  # skips at_day, which is not a column of the output
            value = pa.scalar(text, pa.string()).cast(types[name])
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    rest = [name for name in (OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names]
    return rows.select([*(field.name for field in fields if field.name in rows.column_names), *rest])


def _read_json(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    rows = [json.loads(line) for line in data.splitlines()]
    every = [field for field in fields if rows and field.name in rows[0]]  # only upserts have `_op`
    columns = [_from_json([row[field.name] for row in rows], field.type) for field in every]
    return pa.table(columns, names=[field.name for field in every])


def _from_json(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_null(data_type):  # a type that JSON cannot represent
        return pa.array(values)
    parse = _parser(data_type)
    return pa.array([None if value is None else parse(value) for value in values], data_type)


def _parser(data_type: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_decimal(data_type):
        return Decimal
    if pa.types.is_timestamp(data_type):
        return datetime.fromisoformat
    if pa.types.is_date(data_type):
        return date.fromisoformat
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return base64.b64decode
    if pa.types.is_floating(data_type):
        return float
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _type_of(text: str) -> pa.DataType:
    """Return the type whose `str` is `text`; null for nested and rare types."""
    if found := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp("us", found[1])
    return _PLAIN_TYPES.get(text, pa.null())
