"""Checks of the table of an output: its columns, its history, and whether it is the table that the job has written."""

from collections.abc import Iterable, Sequence

from mixedmode.checkpoint.contents import NOTHING, content_after
from mixedmode.checkpoint.types import Manifest
from mixedmode.connectors.lakehouse.table import (
    NO_EPOCH,
    OP_COLUMN,
    Columns,
    Commit,
    LakeTable,
    Mark,
    names_last_epoch,
)
from mixedmode.errors import FencedError, InvalidJobError

__all__ = [
    "ANOTHER_PAST",
    "check_history",
    "check_owner",
    "columns_to_write",
    "is_of_manifest",
    "is_published",
    "no_epoch",
]

#: keys of Spark's metadata of a column: its type if that is CHAR or VARCHAR, which change or refuse values; its default
_CHAR, _DEFAULT = "__CHAR_VARCHAR_TYPE_STRING", "CURRENT_DEFAULT"


def columns_to_write(table: LakeTable, columns: Columns, added: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns to write.  added: those of this program.

    Raise InvalidJobError if the table lacks columns of the output, or needs values for others.
    """
    schema = table.session.read.table(table.name).schema
    there = {field.name.lower(): field.metadata.get(_CHAR, field.dataType.simpleString()) for field in schema}
    for field in columns.schema:
        wanted = table.stored_type(field.dataType.simpleString())
        found = there.get(field.name.lower())
        if found != wanted:
            msg = (
                "the table does not have the columns of this output. Change the table (ALTER TABLE), the job, or "
                f"the table's name. column={field.name}, type={wanted}, in the table={found or 'no such column'}, "
                f"{where}"
            )
            raise InvalidJobError(msg)
    if OP_COLUMN in added and OP_COLUMN not in there:
        msg = (
            "an output with key columns is appended as changes, and this table has no column `_op string` for what "
            f"a change is. Add it, or set mode: merge. {where}"
        )
        raise InvalidJobError(msg)
    names = (*(field.name for field in columns.fields), *(name for name in added if name in there))
    written = {name.lower() for name in names}
    needed = [f.name for f in schema if not f.nullable and _DEFAULT not in f.metadata and f.name.lower() not in written]
    if needed:
        msg = (
            "the table has a column that may not be NULL, and this output has no such column. Allow NULL in it "
            f"(ALTER TABLE), or add the column to the output in a sql step. column={needed[0]}, {where}"
        )
        raise InvalidJobError(msg)
    return names


def check_history(table: LakeTable, newest: Mark | None, *, is_fresh: bool, replaces: bool, where: str) -> None:
    """Raise InvalidJobError unless the job may begin in the table, or go on with it.  newest: newest_mark of it."""
    if replaces:
        is_foreign = newest is None and table.session.read.table(table.name).limit(1).count() > 0
        if is_foreign or (newest is not None and newest.kind != "batch"):
            msg = (
                "a batch run replaces all rows of its table, and this one holds rows that no batch run of the job "
                f"has written. Choose another table, or remove the rows. {where}"
            )
            raise InvalidJobError(msg)
    elif is_fresh and newest is not None and newest.epoch != NO_EPOCH:
        msg = (
            "the table holds the output of an earlier run of this job whose checkpoints are not here, and the two "
            "would be mixed. Give this output a new table, or put the old checkpointing.dir back. "
            f"latest_published={newest.epoch}, {where}"
        )
        raise InvalidJobError(msg)
    elif is_fresh and newest is not None and newest.kind == "batch":
        msg = (
            "the table holds the output of a batch run of this job, and the two would be mixed. Give this output a "
            f"new table. {where}"
        )
        raise InvalidJobError(msg)
    elif not is_fresh and newest is None and not table.knows_its_beginning():
        raise no_epoch(table, where)


def no_epoch(table: LakeTable, where: str) -> InvalidJobError:
    """Return the error for a table whose history has no epoch of the job, if the job has written epochs to it."""
    return InvalidJobError((_MADE_ANEW if table.knows_its_beginning() else _HISTORY_GONE).format(where=where))


def check_owner(newest: Mark | None, owner: str, where: str) -> None:
    """Raise FencedError if the newest epoch in the table was written over another checkpoint folder."""
    if newest is not None and newest.owner != owner:
        raise FencedError(_TAKEN_OVER.format(latest=newest.epoch, where=where))


def is_published(newest: Mark | None, mark: Mark, before: str, where: str) -> bool:
    """Return whether the table has the epoch of `mark`. Raise FencedError if this start may not write it.

    newest: newest_mark of the table. before: the digest of the table, as this start has left it.
    """
    if newest is None:
        return False
    check_owner(newest, mark.owner, where)
    if newest.epoch > mark.epoch:
        raise FencedError(_LATER_EPOCHS.format(epoch=mark.epoch, latest=newest.epoch, where=where))
    if newest.epoch == mark.epoch and newest.content in {before, mark.content}:
        return True
    if newest.content != before:
        raise FencedError(_OTHER_EPOCHS.format(epoch=mark.epoch, latest=newest.epoch, where=where))
    return False


def is_of_manifest(commits: Iterable[Commit], manifest: Manifest, name: str) -> bool:
    """Return whether the epochs that led to a manifest have written the table of an output. Pure.

    commits: all of the table, newest first. The epoch of the manifest need not be published yet.
    """
    marks = [commit.mark for commit in commits if commit.mark is not None and names_last_epoch(commit.mark)]
    mark = next((mark for mark in marks if mark.epoch <= manifest.epoch), None)
    found = NOTHING if mark is None else mark.content
    if mark is None or mark.epoch < manifest.epoch:
        found = content_after(found, manifest.epoch, [file for file in manifest.outputs if file.sink == name])
    return manifest.output_contents.get(name, found) == found


_MADE_ANEW = (
    "the table has no epoch of this job, although the job has written epochs to it: it was dropped and made anew, "
    "replaced, or rolled back, so the rows of these epochs are gone; or a Delta table was set back to a time, and its "
    "history does not say to which version. Put the old table back (RESTORE TO VERSION AS OF). Or give the output a "
    "new table and the job a new execution.checkpointing.dir (it then starts from the beginning of its sources, or "
    "goes on from a savepoint). {where}"
)
_HISTORY_GONE = (
    "the table's history no longer tells what this job has published, because others have written to it since, or "
    "have compacted it, and old history is removed. So the job cannot go on exactly. Keep the history for longer "
    "(delta.logRetentionDuration; history.expire.min-snapshots-to-keep), and give this output a new table and the job "
    "a new execution.checkpointing.dir. {where}"
)
_TAKEN_OVER = (
    "another checkpoint folder of this job, as of a restored savepoint, has taken over this table, so this start stops "
    "without writing to it. The table belongs to the other one. If that is the unwanted one, stop it, and give this "
    "job a new table and a new execution.checkpointing.dir. latest_published={latest}, {where}"
)
_LATER_EPOCHS = (
    "the table has later epochs of this job than this start, so it stops without writing. Either another start of the "
    "job is running: then it goes on, and nothing is lost; stop the one that is not wanted. Or no other start is "
    "running, and this checkpoint folder is an older copy of the one that was used last: then start the job with that "
    "one. epoch={epoch}, latest_published={latest}, {where}"
)
_OTHER_EPOCHS = (
    "the table no longer has exactly the epochs that led to this one, so this start stops without writing. Either a "
    "start over a copy of this checkpoint folder has written to the table: stop the one that is not wanted. Or "
    "somebody has set the table back: then start the job again, and it goes back to the newest checkpoint whose "
    "epochs the table has. epoch={epoch}, latest_published={latest}, {where}"
)
ANOTHER_PAST = (
    "the table was not written by the epochs that led to this checkpoint, although it has epochs of this job: the job "
    "went back since and wrote other ones, or the table or the checkpoint folder is a copy of another time. Restore "
    "the table and the checkpoints of one time. Or give the output a new table and the job a new "
    "execution.checkpointing.dir (it then starts from the beginning of its sources, or goes on from a savepoint). "
    "checkpoint={epoch}, {where}"
)
