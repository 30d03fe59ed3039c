"""Checks of the table of an output: its columns, its history, and whether it is the table that the job has written."""

from collections.abc import Sequence

from mixedmode.checkpoint.contents import NOTHING, content_after
from mixedmode.checkpoint.types import Manifest
from mixedmode.connectors.lakehouse.table import NO_EPOCH, OP_COLUMN, Columns, LakeTable, Mark
from mixedmode.errors import InvalidJobError

__all__ = ["check_history", "columns_to_write", "has_published_before", "no_epoch"]


def columns_to_write(table: LakeTable, columns: Columns, added: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the columns to write.  added: those of this program.

    Raise InvalidJobError if the table lacks columns of the output.
    """
    there = {field.name.lower(): field.dataType.simpleString() for field in table.session.read.table(table.name).schema}
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
    return (*(field.name for field in columns.fields), *(name for name in added if name in there))


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


def has_published_before(manifest: Manifest, name: str) -> bool:
    """Return whether an output got rows in an epoch before that of the manifest."""
    own = [file for file in manifest.outputs if file.sink == name]
    return manifest.output_contents.get(name, NOTHING) not in {NOTHING, content_after(NOTHING, manifest.epoch, own)}


_MADE_ANEW = (
    "the table has no epoch of this job, although the job has written epochs to it: it was dropped and made anew, "
    "replaced, or rolled back, so the rows of these epochs are gone. Put the old table back. Or give the output a "
    "new table and the job a new execution.checkpointing.dir (it then starts from the beginning of its sources, or "
    "goes on from a savepoint). {where}"
)
_HISTORY_GONE = (
    "the table's history no longer tells what this job has published, because others have written to it since, or "
    "have compacted it, and old history is removed. So the job cannot go on exactly. Keep the history for longer "
    "(delta.logRetentionDuration; history.expire.min-snapshots-to-keep), and give this output a new table and the job "
    "a new execution.checkpointing.dir. {where}"
)
