"""Replaces the rows of windows in a table, in one transaction, beside the epochs of the job.

The rows get the number of the oldest checkpoint, so going back to a checkpoint leaves them. A savepoint may be older.
In it, windows of the range are open, and its job would write their rows a second time; or going back to it would delete
rows of windows that its state no longer has. So the history of the table, by which it goes back, ends at the oldest
checkpoint, whether that epoch has rows or not, and going back further is refused.
"""

from dataclasses import replace

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.tables.database import OP_COLUMN, RefusedError, Shape, Transaction
from mixedmode.sinks.tables.ledger import Entry, Writer
from mixedmode.time.window_range import ReplacedRows

__all__ = ["replace_rows"]

_BATCH_ROWS = 65_536
_INSERT = "insert"


def replace_rows(
    transaction: Transaction, writer: Writer, shape: Shape, rows: pa.Table, replaced: ReplacedRows, before: Epoch
) -> None:
    """Delete the rows of the windows, and insert `rows`.  before: see Sink.replace_windows.

    Raise InvalidJobError if the table is another job's or run's, or has no epoch up to `before`; RefusedError if the
    database refuses a row.
    """
    entry = _entry_of(transaction, writer)
    if entry.first_epoch is None or entry.first_epoch > before:
        raise InvalidJobError(_NO_EPOCH.format(before=before, first=entry.first_epoch))
    for name in shape.key_columns:
        if rows.column(name).null_count:
            msg = "a key column is NULL"
            raise RefusedError(msg, column=name)
    transaction.delete_windows(replaced)
    _end_history(transaction, entry, before)
    transaction.begin(shape, saves=None)
    given = _with_own_columns(rows, shape, before)
    for start in range(0, given.num_rows, _BATCH_ROWS):
        transaction.apply(given.slice(start, _BATCH_ROWS))


def _end_history(transaction: Transaction, entry: Entry, oldest: Epoch) -> None:
    """Make `oldest`, which is published, the oldest epoch to which the table can return, even if it wrote no rows."""
    history = transaction.history
    mark = history.newest_mark(oldest)
    if mark is not None and mark.epoch < oldest:
        history.mark(replace(mark, epoch=oldest))
    history.prune(oldest)
    if not entry.covers(oldest):
        transaction.put(replace(entry, last_epoch=oldest))


def _with_own_columns(rows: pa.Table, shape: Shape, epoch: Epoch) -> pa.Table:
    """Return the columns that `Transaction.apply` takes."""
    if not shape.key_columns:
        rows = rows.append_column(EPOCH_COLUMN, pa.array([int(epoch)] * rows.num_rows, pa.int64()))
        return rows.select(shape.names)
    return rows.append_column(OP_COLUMN, pa.array([_INSERT] * rows.num_rows, pa.string()))


def _entry_of(transaction: Transaction, writer: Writer) -> Entry:
    entry = transaction.entry()
    if entry is None or (entry.job, entry.output, entry.owner) != (writer.job, writer.output, writer.owner):
        msg = (
            "the table does not belong to this job and its checkpoint folder, so nothing was replaced. Give the job "
            f"file and the options that the job runs with. job={writer.job}"
        )
        raise InvalidJobError(msg)
    return entry


_NO_EPOCH = (
    "the table has no rows of an epoch up to the oldest checkpoint, so going back to a checkpoint would delete those "
    "of the backfill. Let the job commit more epochs, and do the same again. Nothing was replaced. "
    "oldest_checkpoint={before}, oldest_epoch_in_table={first}"
)
