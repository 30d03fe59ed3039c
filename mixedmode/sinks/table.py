"""Reads the contents of an output folder, correctly at any moment: while the job runs, during and after a compaction.

An output with a key is its current table: for each key, its newest row, unless that row deletes the key. Without a
key, all rows count. Merged files replace others, whether or not those are deleted yet (publish.steady_files).

Parquet, JSON and CSV, partitioned or not, compacted or not, return the same table (tests/sinks/test_table.py).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config.arguments import checked_arguments
from mixedmode.errors import InvalidJobError
from mixedmode.keys import group_codes
from mixedmode.operators.tables import column_of
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.publish import OutputDescription, read_output_description, steady_files
from mixedmode.sinks.read_files import OP_COLUMN, FileGoneError, fields_of, read_rows

_DELETE = "delete"


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """Rows ordered by key, without `_op` and `_epoch`."""

    description: OutputDescription
    rows: pa.Table


@checked_arguments
def read_output(path: str | os.PathLike[str], *, changes: bool = False) -> pa.Table:
    """Return the rows of an output: its current table if the output has a key, else all rows.

    changes: return every row that was written, with `_op` (if any) and `_epoch`. All rows are loaded into memory; use
    output_files for larger outputs. Raises InvalidJobError if the folder is not the output of a job.
    """
    url = str(path)
    description = _description(url)
    rows = _all_changes(ObjectStore(url), description)
    return rows if changes else _current_rows(rows, description)


def table_at(path: str | Path, epoch: int) -> CurrentTable:
    """Return the table that an output had after an epoch, while later epochs may have changed it.

    Requires that no compaction has dropped older rows of the epochs up to `epoch`: a checkpoint of it exists. Raises
    InvalidJobError if the folder is not the output of a job.
    """
    url = str(path)
    description = _description(url)
    changes = _all_changes(ObjectStore(url), description)
    if EPOCH_COLUMN in changes.column_names:
        changes = changes.filter(pc.less_equal(changes.column(EPOCH_COLUMN), epoch))
    return CurrentTable(description, _current_rows(changes, description))


@checked_arguments
def output_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the files of an output that count now, as paths or URLs. A key's newer row comes after its older row.

    A reader of exactly these files gets each row once. Call this anew for each query: a compaction replaces files, and
    a query that meets a deleted file fails. Raises InvalidJobError if the folder is not the output of a job.
    """
    url = str(path)
    _description(url)
    store = ObjectStore(url)
    return [f"{store.url}/{file}" for file, _ in steady_files(store)]


def current_table(url: str) -> CurrentTable | None:
    """Return the table in an output folder; None if the folder is not an output.
    Without a key, the table has all rows.
    """
    store = ObjectStore(url)
    description = read_output_description(store)
    if description is None:
        return None
    return CurrentTable(description, _current_rows(_all_changes(store, description), description))


def _description(url: str) -> OutputDescription:
    found = None if Path(url).is_file() else read_output_description(ObjectStore(url))
    if found is None:
        raise InvalidJobError(_no_output(Path(url)))
    return found


def _no_output(folder: Path) -> str:
    """Return an error text that says why there is no table to show, and what to do.
    Only file sinks write a folder that this program can read.
    """
    if (folder / "_delta_log").is_dir():
        what = "this is a Delta table, which keeps its own current rows. Read it with Spark or another engine for Delta"
    elif any(folder.glob("metadata/*.metadata.json")):
        what = "this is an Iceberg table, which keeps its own current rows. Read it with Spark or another engine for it"
    else:
        what = (
            "this is not the output of a job: there is no _mixedmode in it. Name the folder that the job file "
            "gives in sink.path. A sink without a folder is read where it writes: PostgreSQL with psql, SQLite with "
            "sqlite3, Kafka with a consumer, a table of a catalog with Spark"
        )
    return f"{what}. folder={folder}"


def _all_changes(store: ObjectStore, description: OutputDescription) -> pa.Table:
    while True:
        try:
            pieces = [read_rows(store, path, description) for path, _ in steady_files(store)]
        except FileGoneError:  # a compaction has just merged it
            continue
        if not pieces:
            return pa.schema(fields_of(description)).empty_table()
        return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()


def _current_rows(changes: pa.Table, description: OutputDescription) -> pa.Table:
    is_keyed = bool(description.key_columns) and OP_COLUMN in changes.column_names
    rows = _newest(changes, description.key_columns) if is_keyed else changes
    return rows.drop_columns([name for name in (OP_COLUMN, EPOCH_COLUMN) if name in rows.column_names])


def _newest(changes: pa.Table, key_columns: tuple[str, ...]) -> pa.Table:
    """Return one row per key: its last. Files of a folder are in epoch order;
    the rows of a key are in one folder, in order.
    """
    groups = group_codes([column_of(changes, name) for name in key_columns])
    newest = np.full(len(groups.first_row), -1, np.int64)
    np.maximum.at(newest, groups.codes, np.arange(changes.num_rows))
    kept = changes.take(pa.array(newest))
    kept = kept.filter(pc.not_equal(kept.column(OP_COLUMN), _DELETE))
    return kept.sort_by([(name, "ascending") for name in key_columns])
