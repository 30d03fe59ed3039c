"""The current table of an upsert output: for each key, its newest row, unless that row deletes the key.

Parquet, JSON and CSV, partitioned or not, compacted or not, give the same table (tests/sinks/test_table.py).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.keys import group_codes
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.publish import OutputDescription, current_files, read_output_description
from mixedmode.sinks.read_files import OP_COLUMN, fields_of, read_rows

_DELETE = "delete"


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
    pieces = [read_rows(store, path, description) for path, _ in current_files(store)]
    if not pieces:
        return CurrentTable(description, pa.schema(fields_of(description)).empty_table())
    changes = pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
    rows = _newest(changes, description.key_columns) if description.key_columns else changes
    hidden = [name for name in (OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names]
    return CurrentTable(description, rows.drop_columns(hidden))


def _newest(changes: pa.Table, key_columns: tuple[str, ...]) -> pa.Table:
    """One row per key: its last one. Files of a folder come by epoch; rows of a key are in one folder, in order."""
    groups = group_codes([_array(changes, name) for name in key_columns])
    newest = np.full(len(groups.first_row), -1, np.int64)
    np.maximum.at(newest, groups.codes, np.arange(changes.num_rows))
    kept = changes.take(pa.array(newest))
    kept = kept.filter(pc.not_equal(kept.column(OP_COLUMN), _DELETE))
    return kept.sort_by([(name, "ascending") for name in key_columns])


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
