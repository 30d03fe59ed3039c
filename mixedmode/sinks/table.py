"""The current table of an upsert output: for each key, its newest row, unless that row deletes the key.

JSON has few types, so its values are read back as the types in the output's description: Parquet and JSON give the same
table (tests/sinks/test_table.py).
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.keys import group_codes
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.publish import OutputDescription, published_files, read_output_description

_OP_COLUMN, _DELETE = "_op", "delete"
_PLAIN_TYPES: Mapping[str, pa.DataType] = {
    str(data_type): data_type
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.timestamp("us")),
    )
}
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[us, tz=(.+)\]")


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """Rows ordered by key, without `_op` and `_epoch`."""

    description: OutputDescription
    rows: pa.Table


def current_table(url: str) -> CurrentTable | None:
    """The table in an output folder; None if it is not one. A job without a keyed step gives all of its rows."""
    store = ObjectStore(url)
    description = read_output_description(store)
    if description is None:
        return None
    fields = [pa.field(column.name, _type_of(column.type)) for column in description.columns]
    pieces = [_read(store, path, description.format, fields) for path, _ in published_files(store)]
    if not pieces:
        return CurrentTable(description, pa.schema(fields).empty_table())
    changes = pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
    rows = _newest(changes, description.key_columns) if description.key_columns else changes
    hidden = [name for name in (_OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names]
    return CurrentTable(description, rows.drop_columns(hidden))


def _newest(changes: pa.Table, key_columns: tuple[str, ...]) -> pa.Table:
    """One row per key: its last one. Files come by epoch; the rows of a key in an epoch are in one file, in order."""
    groups = group_codes([_array(changes, name) for name in key_columns])
    newest = np.full(len(groups.first_row), -1, np.int64)
    np.maximum.at(newest, groups.codes, np.arange(changes.num_rows))
    kept = changes.take(pa.array(newest))
    kept = kept.filter(pc.not_equal(kept.column(_OP_COLUMN), _DELETE))
    return kept.sort_by([(name, "ascending") for name in key_columns])


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _read(store: ObjectStore, path: str, file_format: str, fields: Sequence[pa.Field]) -> pa.Table:
    data = store.get(path)
    assert data is not None, path
    return pq.read_table(pa.BufferReader(data)) if file_format == "parquet" else _read_json(data, fields)


def _read_json(data: bytes, fields: Sequence[pa.Field]) -> pa.Table:
    rows = [json.loads(line) for line in data.splitlines()]
    every = [*fields, pa.field(_OP_COLUMN, pa.string()), pa.field(EPOCH_COLUMN, pa.int64())]
    every = [field for field in every if rows and field.name in rows[0]]  # only upserts have `_op`
    columns = [_from_json([row[field.name] for row in rows], field.type) for field in every]
    return pa.table(columns, names=[field.name for field in every])


def _from_json(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_null(data_type):  # a type without a form of its own in JSON
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
    """The type whose `str` is `text`; null for nested and rare ones."""
    if found := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp("us", found[1])
    return _PLAIN_TYPES.get(text, pa.null())
