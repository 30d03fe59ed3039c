"""The current table of an upsert output: for each key, its newest row, unless that row deletes the key."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.keys import group_codes
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.publish import OutputDescription, published_files, read_output_description

_OP_COLUMN, _DELETE = "_op", "delete"


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
    pieces = [_read(store, path, description.format) for path, _ in published_files(store)]
    if not pieces:
        names = [column.name for column in description.columns]
        return CurrentTable(description, pa.table({name: pa.nulls(0) for name in names}))
    changes = pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
    rows = _newest(changes, description.key_columns) if description.key_columns else changes
    hidden = [name for name in (_OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names]
    return CurrentTable(description, rows.drop_columns(hidden))


def _newest(changes: pa.Table, key_columns: tuple[str, ...]) -> pa.Table:
    """One row per key: the one of its greatest epoch, which has one row per key."""
    groups = group_codes([_array(changes, name) for name in key_columns])
    epochs = changes.column(EPOCH_COLUMN).to_numpy()
    newest = np.full(len(groups.first_row), -1, np.int64)
    np.maximum.at(newest, groups.codes, epochs)
    kept = changes.filter(pa.array(epochs == newest[groups.codes]))
    kept = kept.filter(pc.not_equal(kept.column(_OP_COLUMN), _DELETE))
    return kept.sort_by([(name, "ascending") for name in key_columns])


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _read(store: ObjectStore, path: str, file_format: str) -> pa.Table:
    data = store.get(path)
    assert data is not None, path
    reader = pa.BufferReader(data)
    return pq.read_table(reader) if file_format == "parquet" else pj.read_json(reader)
