"""Decides whether a table can be rolled back to an epoch, and rolls it back.

The digest of a table (checkpoint/contents.py) identifies the epochs that led to its contents. So a table that other
epochs with the same numbers have written, or that is a copy of another time, is refused before anything is changed.
"""

from collections.abc import Sequence

from mixedmode.checkpoint.contents import NOTHING, content_after
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.sinks.tables.database import Shape, Transaction
from mixedmode.sinks.tables.history import Mark
from mixedmode.sinks.tables.ledger import Entry

__all__ = ["mark_at", "obstacle", "prepare_history", "roll_back"]


def mark_at(transaction: Transaction, epoch: Epoch) -> Mark | None:
    """Return the mark of an epoch, or of the newest earlier epoch with rows;
    None if the history does not reach that far.
    """
    return None if transaction.history_names() is None else transaction.history.newest_mark(epoch)


def obstacle(
    entry: Entry, epoch: Epoch, wanted: str, mark: Mark | None, *, files: Sequence[StagedFile], place: str
) -> str | None:
    """Return an error text if the table cannot return to its contents after an epoch; None if it can. Pure.

    wanted: the digest that the epoch's manifest has of this output. mark: the mark of the epoch (mark_at). files: of
    the epoch, for this table; they may not be published yet.
    """
    first, last = entry.first_epoch, entry.last_epoch
    if last is None or last < epoch:
        found: str | None = content_after(entry.content, epoch, files)
    elif last == epoch:
        found = entry.content
    elif first is not None and first > epoch:
        found = NOTHING
    else:
        found = None if mark is None else mark.content
    if found == wanted:
        return None
    return (_TOO_OLD if found is None else _ANOTHER_PAST).format(epoch=epoch, last=last, place=place)


def roll_back(transaction: Transaction, entry: Entry, after: Epoch, place: str) -> tuple[int, str]:
    """Restore the table as of an epoch; return (number of rows that were changed, its digest).

    Raises CorruptStateError, and changes nothing, if the history does not reach that far.
    """
    if entry.last_epoch is None or entry.last_epoch <= after:
        return 0, entry.content
    names = transaction.history_names()
    if entry.first_epoch is not None and entry.first_epoch > after:
        if names is not None:
            transaction.history.clear()
        return transaction.clear(), NOTHING
    mark = mark_at(transaction, after)
    if mark is None or names is None:
        raise CorruptStateError(_TOO_OLD.format(epoch=after, last=entry.last_epoch, place=place))
    if entry.key_columns:
        rows = transaction.history.go_back(after, entry.key_columns, names)
    else:
        rows = transaction.delete_after(after)
    transaction.history.forget(after)
    return rows, mark.content


def prepare_history(transaction: Transaction, shape: Shape, place: str, *, is_fresh: bool, may_create: bool) -> None:
    """Ensure that the history has the columns of the job.
    A history with other columns is replaced by an empty history.
    """
    names = transaction.history_names()
    if names is not None and set(names) == set(shape.saved_names):
        if is_fresh:
            transaction.history.clear()
        return
    statements = transaction.history_ddl(shape)
    if not may_create:
        msg = (
            "the table beside this output's table, from which rows are brought back when the job goes back to an "
            "older checkpoint, does not exist or has other columns, and this output has create: false. Create it: "
            f"{'; '.join(statements)}; table={place}"
        )
        raise InvalidJobError(msg)
    for statement in statements:
        transaction.execute(statement)


_NEW_TABLE = (
    "Nothing was changed. Rename or drop the table, or name another one, and give the job a new checkpointing.dir: it "
    "then starts from the beginning of its sources, or goes on from a savepoint with an output that begins anew. "
)
_TOO_OLD = (
    "the table cannot become what it was after this epoch: its history (_mixedmode_history_*) no longer has the rows "
    f"that later epochs, or a backfill, replaced. {_NEW_TABLE}A larger "
    "checkpointing.num-retained keeps a longer history. "
    "epoch={epoch}, newest_epoch_in_table={last}, table={place}"
)
_ANOTHER_PAST = (
    "the table was not written by the epochs that led to this checkpoint, although it belongs to this job: the job "
    "went back since and wrote other ones, or the table or the checkpoint folder is a copy of another time. "
    f"{_NEW_TABLE}"
    "Or restore the table and the checkpoints of one time. epoch={epoch}, newest_epoch_in_table={last}, table={place}"
)
