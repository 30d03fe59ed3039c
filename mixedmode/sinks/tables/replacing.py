"""Replaces the rows of windows in a table, in one transaction, beside the epochs of the job.

The ledger is read and not changed: the rows belong to epochs that are published, and to which the job can no longer go
back. So the history of the table, by which it goes back, has nothing about them.
"""

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.tables.database import OP_COLUMN, RefusedError, Shape, Transaction
from mixedmode.sinks.tables.ledger import Entry, Writer
from mixedmode.time.window_range import WindowRange

__all__ = ["replace_rows"]

_BATCH_ROWS = 65_536
_INSERT = "insert"


def replace_rows(
    transaction: Transaction, writer: Writer, shape: Shape, rows: pa.Table, windows: WindowRange, epoch: Epoch
) -> None:
    """Delete the rows of the windows, and insert `rows` as rows of `epoch`.

    Raise InvalidJobError if the table is another job's or run's, RefusedError if the database refuses a row.
    """
    entry = transaction.entry()
    _check_owner(entry, writer)
    for name in shape.key_columns:
        if rows.column(name).null_count:
            msg = "a key column is NULL"
            raise RefusedError(msg, column=name)
    transaction.delete_windows(windows)
    transaction.begin(shape, saves=None)
    given = _with_own_columns(rows, shape, epoch)
    for start in range(0, given.num_rows, _BATCH_ROWS):
        transaction.apply(given.slice(start, _BATCH_ROWS))


def _with_own_columns(rows: pa.Table, shape: Shape, epoch: Epoch) -> pa.Table:
    """Return the columns that `Transaction.apply` takes."""
    if not shape.key_columns:
        rows = rows.append_column(EPOCH_COLUMN, pa.array([int(epoch)] * rows.num_rows, pa.int64()))
        return rows.select(shape.names)
    return rows.append_column(OP_COLUMN, pa.array([_INSERT] * rows.num_rows, pa.string()))


def _check_owner(entry: Entry | None, writer: Writer) -> None:
    if entry is None or (entry.job, entry.output, entry.owner) != (writer.job, writer.output, writer.owner):
        msg = (
            "the table does not belong to this job and its checkpoint folder, so nothing was replaced. Give the job "
            f"file and the options that the job runs with. job={writer.job}"
        )
        raise InvalidJobError(msg)
