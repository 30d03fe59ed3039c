"""The ledger: one row per table in the table `_mixedmode` beside it, with the table's owner and its last epoch.

This row is read, checked and changed in the transaction that changes the table. So an epoch is in the table if and
only if the row says so, whatever happened to the connection, the driver, or the answer to a commit.

`owner` is an id in the checkpoint folder (in the folder with the staged files), drawn when a job first prepares the
table. So two jobs, or two runs of one job over two checkpoint folders, never share a table unnoticed; and a folder may
be moved. A batch run has no such folder, and replaces what an earlier batch run wrote.

Invariants (tests/tables/test_ledger.py):
  I1  an epoch is applied once, by the newest start that has published to the table or rolled it back
  I2  after `forget(after)`, exactly the epochs up to `after` count as published
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import msgspec

from mixedmode.checkpoint.contents import NOTHING
from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError

__all__ = [
    "ENTRY_COLUMNS",
    "LEDGER",
    "Entry",
    "Writer",
    "check_content",
    "check_generation",
    "check_may_prepare",
    "entry_of",
    "is_published",
    "new_entry",
    "published",
    "row_of",
]

#: the bookkeeping table, with one row per table beside it
LEDGER = "_mixedmode"

Run = Literal["batch", "continuous"]


@dataclass(frozen=True, slots=True)
class Writer:
    """The job, output and start that write. `output` is "" for the main one.
    `owner` is "" in a batch run, and where the folder has no id yet.
    """

    job: str
    output: str
    run: Run
    owner: str
    generation: Generation


@dataclass(frozen=True, slots=True)
class Entry:
    """The row of one table. The table has the epochs [first_epoch, last_epoch], except those without rows; None: no
    epochs.

    `content` is the digest of all that was published to the table (checkpoint/contents.py).
    """

    job: str
    output: str
    run: Run
    owner: str
    generation: int
    key_columns: tuple[str, ...]
    first_epoch: Epoch | None = None
    last_epoch: Epoch | None = None
    content: str = NOTHING

    def covers(self, epoch: Epoch) -> bool:
        """Return whether the rows of an epoch, if it had any, are in the table."""
        return self.last_epoch is not None and epoch <= self.last_epoch

    def forget(self, after: Epoch, writer: Writer, content: str) -> "Entry":
        """Return the row after later epochs were rolled back, for the writer that resumes from `after`, whose digest
        is `content`.
        """
        first = self.first_epoch if self.first_epoch is not None and self.first_epoch <= after else None
        last = None if first is None or self.last_epoch is None else Epoch(min(self.last_epoch, after))
        own = replace(self, owner=writer.owner, generation=writer.generation)
        return replace(own, first_epoch=first, last_epoch=last, content=content)


#: the columns of the ledger beside `table_name`, in the order of `entry_of` and `row_of`
ENTRY_COLUMNS = tuple(field.name for field in fields(Entry))


def entry_of(values: Sequence[object], table: str) -> Entry:
    """Return the row with these values.  Raises InvalidJobError if another program has written them."""
    row = dict(zip(ENTRY_COLUMNS, values, strict=True))
    try:
        return msgspec.convert({**row, "key_columns": msgspec.json.decode(str(row["key_columns"]))}, Entry)
    except msgspec.MsgspecError as error:
        raise InvalidJobError(_DAMAGED.format(cause=error, row=row, table=table)) from error


def row_of(entry: Entry) -> list[object]:
    """Inverse of `entry_of`."""
    row = {name: getattr(entry, name) for name in ENTRY_COLUMNS}
    return list({**row, "key_columns": json.dumps(entry.key_columns)}.values())


def new_entry(writer: Writer, key_columns: tuple[str, ...]) -> Entry:
    """Return the row of a table that has not been written."""
    return Entry(writer.job, writer.output, writer.run, writer.owner, writer.generation, key_columns)


def is_published(entry: Entry | None, writer: Writer, epoch: Epoch, place: str) -> bool:
    """Return whether an epoch is already in the table. Raises FencedError if `writer` may not publish there, and
    InvalidJobError if the table has no row.
    """
    if entry is None:
        raise InvalidJobError(_NO_ENTRY.format(place=place))
    if writer.run == "continuous" and entry.owner != writer.owner:
        msg = (
            "another job, or a restored savepoint, has taken over this table, so this start stops without writing to "
            "it. The table belongs to the other one. If that is the unwanted one, stop it, and give this job an "
            f"empty table and a new checkpointing.dir. table={place}"
        )
        raise FencedError(msg)
    check_generation(entry, writer, place)
    return writer.run == "continuous" and entry.covers(epoch)


def check_generation(entry: Entry, writer: Writer, place: str) -> None:
    """Raise FencedError if a start of the same job with a higher generation has written.

    That start may be running. Or this checkpoint folder is an older copy, and counts its starts from the copy on; the
    table cannot distinguish the two cases.
    """
    if entry.owner == writer.owner and entry.generation > writer.generation:
        raise FencedError(_OVERTAKEN.format(own=writer.generation, newest=entry.generation, place=place))


def check_content(entry: Entry, expected: str | None, epoch: Epoch, place: str) -> None:
    """Raise CorruptStateError unless the table has the digest that this start has left.

    No other program changes the digest of this owner. So the database was set back to an older time, and lacks the rows
    of the epochs since.
    """
    if entry.content != expected:
        raise CorruptStateError(_SET_BACK.format(epoch=epoch, last=entry.last_epoch, place=place))


def published(entry: Entry, writer: Writer, epoch: Epoch, content: str) -> Entry:
    """Return the row after an epoch was applied."""
    first = epoch if entry.first_epoch is None else entry.first_epoch
    return replace(entry, generation=writer.generation, first_epoch=first, last_epoch=epoch, content=content)


def check_may_prepare(entry: Entry | None, writer: Writer, place: str, *, is_fresh: bool, has_rows: bool) -> None:
    """Raise InvalidJobError unless `writer` may begin in this table, or continue it; FencedError if a newer start has
    written.

    is_fresh: see Sink.prepare. has_rows: the table has rows, from any writer; a fresh job may use an empty table. A
    writer without an owner is a batch run, or a savepoint that is being restored; then only the job is compared.
    """
    if entry is not None and writer.owner:
        check_generation(entry, writer, place)
    if is_fresh and not has_rows:
        return
    if entry is None:
        raise InvalidJobError((_OTHERS_ROWS if is_fresh else _NOT_HERE).format(place=place))
    pairs = [(name, getattr(entry, name), getattr(writer, name)) for name in ("job", "output", "run")]
    differences = [f"{name} was {before!r} and is {now!r}" for name, before, now in pairs if before != now]
    if differences:
        raise InvalidJobError(_ANOTHERS.format(differences="; ".join(differences), place=place))
    if writer.run == "batch" or not writer.owner:
        return
    is_same = entry.owner == writer.owner
    if is_fresh and not (is_same and entry.last_epoch is None):  # epochs that were rolled back are written again
        raise InvalidJobError(_EARLIER_RUN.format(place=place))
    if not is_fresh and not is_same:
        raise InvalidJobError(_NOT_HERE.format(place=place))


_DAMAGED = (
    "the row of this table in _mixedmode has other values than this program writes, so it does not tell what the table "
    "has. Put the row back from a copy, and start the job again. Without a copy, give the job an empty table and a new "
    "checkpointing.dir. cause={cause}, row={row}, table={table}"
)
_NO_ENTRY = (
    "the row of this table in _mixedmode was deleted while the job runs, so nothing of the epoch is in the table. Put "
    "it back from a copy, and start the job again: the epoch, which is committed, is written then. Without a copy, "
    "give the job an empty table and a new checkpointing.dir. table={place}"
)
_SET_BACK = (
    "the database was set back to an older time while the job runs: it was restored from a copy, or a server took over "
    "that lacks the newest commits. The table lacks epochs that this job has written, so nothing was added to it. Put "
    "the newer database back, and start the job again; or give the job an empty table and a new checkpointing.dir (it "
    "then starts from the beginning of its sources, or goes on from a savepoint with an output that begins anew). "
    "epoch={epoch}, newest_epoch_in_table={last}, table={place}"
)
_OVERTAKEN = (
    "a newer generation of this job has written to its table, so this start stops without writing. Either another "
    "start of the job is running: then it goes on, and nothing is lost; stop the one that is not wanted. Or no other "
    "start is running, and this checkpoint folder is an older copy of the one that was used last: then start the job "
    "with that one. If that one is lost, take a savepoint of this folder, and restore it into a new "
    "checkpointing.dir: that rolls the table back to what this folder knows. own_generation={own}, "
    "newest_generation={newest}, table={place}"
)
_NOT_HERE = (
    "the job goes on from a checkpoint, and the output it has written so far is not in this table, or was taken over "
    "by another run. Name the old table of this output, or give the job a new checkpointing.dir and an empty table "
    "(it then starts from the beginning of its sources). table={place}"
)
_OTHERS_ROWS = (
    "the table holds rows that no job of mixedmode has written, and they would be mixed with, or replaced by, those of "
    "this job. Empty the table, or name another one. table={place}"
)
_ANOTHERS = (
    "the table holds another output, and the rows of both would be mixed: {differences}. Name another table, or empty "
    "this one. table={place}"
)
_EARLIER_RUN = (
    "the table holds the output of an earlier run whose checkpoints are not here, and the two would be mixed. Name "
    "another table, empty this one, or put the old checkpointing.dir back. table={place}"
)
