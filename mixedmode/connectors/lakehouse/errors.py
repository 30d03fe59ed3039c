"""Translates error texts of Delta Lake and Iceberg on tables read as streams, such as a table with updated rows."""

import re

from mixedmode.errors import InvalidJobError

_DELTA_CHANGE = re.compile(
    r"\[(DELTA_SOURCE_TABLE_IGNORE_CHANGES|DELTA_SOURCE_IGNORE_DELETE)\].*?at version (\d+)", re.DOTALL
)
_ICEBERG_CHANGE = re.compile(r"Cannot process (overwrite|delete) snapshot: (\d+)")
_ICEBERG_EXPIRED = re.compile(
    r"Cannot load current offset at snapshot|snapshot was expired or removed|Cannot find snapshot with ID"
    r"|is not a parent ancestor of end snapshot|Cannot find the end snapshot"
)
_DELTA_LOG_GONE = re.compile(r"\[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE\]")
#: what Delta says of a position from which a stream shall begin, and which the table does not have yet, or any more
_DELTA_NOT_YET = re.compile(r"\[DELTA_TIMESTAMP_GREATER_THAN_COMMIT\][^\n]*?latest version \(([^)]*)\)")
_DELTA_NO_VERSION = re.compile(r"\[DELTA_VERSION_NOT_FOUND\][^\n]*? version (-?\d+)\. Available versions: (\[[^]]*\])")
_DELTA_ANEW = re.compile(r"\[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE\]")
#: what Iceberg says when it looks for the snapshot after one that does not lead to the current one
_ICEBERG_ROLLED_BACK = re.compile(r'Snapshot\.parentId\(\)" is null|not an ancestor of table\'s current snapshot')
_ICEBERG_FILE_GONE = re.compile(
    r"NotFoundException: (?:Failed to open input stream for file|Location does not exist): (\S+)"
)
#: what both formats say of columns that a table of theirs cannot have
_NO_COLUMN = re.compile(r"Not a supported type|Invalid schema for v|unsupported data types?|invalid character")
#: what both formats say of a row that a constraint of the table refuses
_REFUSED = re.compile(r"constraint .*violated|NULL value appeared in non-nullable field", re.IGNORECASE)
#: what Delta says of a table whose rows may not be updated or deleted
_APPEND_ONLY = re.compile(r"table is configured to only allow appends")
#: what both formats say of a commit that another one came before
_CONFLICT = re.compile(
    r"Transaction conflict detected|(?:MetadataChanged|ProtocolChanged|ConcurrentWrite|ConcurrentTransaction)Exception"
    r"|Found (?:new )?conflicting|Found concurrently added DV|Missing required files to delete"
    r"|Cannot commit, (?:missing data files|found new)|CommitFailedException"
    # an epoch in a branch of Iceberg, which another start, or another commit, has overtaken
    r"|Branch does not exist|[Cc]annot use branch|not append, dynamic overwrite, or fast-forward|Cannot fast-forward"
    r"|Duplicate request to cherry pick"
)
_NEW_JOB = "Give the job a new execution.checkpointing.dir and output: it then reads the table as it is now"
_NEW_COLUMNS = re.compile(r"\[(DELTA_SCHEMA_CHANGED\w*)\]")
_OTHER_COLUMNS = re.compile(r"\[(DELTA_STREAMING_(?:INCOMPATIBLE_SCHEMA_CHANGE|SCHEMA_MISMATCH_ON_RESTART)\w*)\]")
CHANGED = (
    "the table of a source was changed by an update, a delete or a merge, and a stream reads what is added to a table "
    "only; nothing was committed. Either pass over such changes, with {option} in the source's options (rows that were "
    "updated then keep the old value in the result), or read the table as it is now: give the job a new "
    "execution.checkpointing.dir and output. {value}"
)


def output_problem(text: str, where: str) -> InvalidJobError | None:
    """Return the error if a table cannot have the columns of an output or refuses a row, else None.

    where: names the table.
    """
    if _REFUSED.search(text) is not None:
        return InvalidJobError(
            "the table of an output refuses a row of an epoch, which is committed, so nothing of the epoch was "
            "written. Remove the constraint (ALTER TABLE), and start the job again: it writes the epoch then. "
            f"{where}, cause={text}"
        )
    if _APPEND_ONLY.search(text) is not None:
        return InvalidJobError(
            "the table of an output takes new rows only, and this output updates or deletes rows of its keys. Nothing "
            "of the epoch, which is committed, was written. Remove the property (ALTER TABLE ... SET TBLPROPERTIES "
            f"('delta.appendOnly' = 'false')), and start the job again: it writes the epoch then. {where}"
        )
    if _NO_COLUMN.search(text) is None:
        return None
    return InvalidJobError(
        "the table of an output cannot have such columns. Cast or rename them in a sql step, as in CAST(x AS STRING). "
        f"{where}, cause={text}"
    )


def is_conflict(text: str) -> bool:
    """Return whether a commit failed because somebody else has committed meanwhile, so it may be repeated."""
    return _CONFLICT.search(text) is not None


def lakehouse_problem(text: str) -> InvalidJobError | None:
    """Return the error if a source's table stopped a query, else None. The caller adds the log."""
    found = _DELTA_CHANGE.search(text)
    if found is not None:
        return InvalidJobError(CHANGED.format(option="skipChangeCommits: true", value=f"version={found[2]}"))
    found = _ICEBERG_CHANGE.search(text)
    if found is not None:
        option = f"streaming-skip-{found[1]}-snapshots: true"
        return InvalidJobError(CHANGED.format(option=option, value=f"snapshot={found[2]}"))
    if _ICEBERG_EXPIRED.search(text):
        return InvalidJobError(
            "the snapshot of a source's table up to which the job has read has expired, so what came after it cannot "
            "be told. Nothing was committed. If the job has no checkpoint yet, start it again: it reads the table as "
            "it is then. Else give it a new execution.checkpointing.dir and output. Keep snapshots for longer than a "
            "backlog takes, and than the job may stand still (history.expire.max-snapshot-age-ms)"
        )
    if _ICEBERG_ROLLED_BACK.search(text):
        return InvalidJobError(
            "the Iceberg table of a source was rolled back to a snapshot before the one up to which the job has read, "
            f"so rows in the result are no longer in the table. Nothing was committed. {_NEW_JOB}"
        )
    found = _DELTA_NOT_YET.search(text)
    if found is not None:
        return InvalidJobError(
            "the Delta table of a source has no commit at or after the time from which it is to be read, and a stream "
            "of Delta cannot begin with that. Start the job when the table has such a commit, or name an earlier time "
            f"in starting.timestamp. newest_commit={found[1]}"
        )
    found = _DELTA_NO_VERSION.search(text)
    if found is not None:
        return InvalidJobError(
            "the Delta table of a source does not have the version from which it is to be read: it is yet to come, or "
            f"its log has expired. Name one that it has in starting.version. starting.version={found[1]}, "
            f"versions={found[2]}"
        )
    if _DELTA_ANEW.search(text):
        return InvalidJobError(
            "the Delta table of a source was deleted and made anew since the job has read it, and its commits have the "
            f"same numbers again. Nothing was committed. {_NEW_JOB}"
        )
    found = _ICEBERG_FILE_GONE.search(text)
    if _DELTA_LOG_GONE.search(text) or found is not None:
        return InvalidJobError(
            "the table of a source no longer has what the job has yet to read: commits of its log have expired, or "
            "files were removed. Nothing was committed. Keep them for longer than a backlog takes, and than the job "
            "may stand still (delta.logRetentionDuration, VACUUM; history.expire.max-snapshot-age-ms). If the job has "
            "no checkpoint yet, start it again. Else give it a new execution.checkpointing.dir and output: it then "
            f"reads the table as it is now{'' if found is None else f'. file={found[1]}'}"
        )
    found = _OTHER_COLUMNS.search(text)
    if found is not None:
        return InvalidJobError(
            "a column of the Delta table of a source was renamed or dropped, or got another type, and a stream of "
            f"Delta does not read past that. Nothing was committed. {_NEW_JOB}. cause={found[1]}"
        )
    found = _NEW_COLUMNS.search(text)
    if found is not None:
        return InvalidJobError(
            "the columns of a source's table have changed while the job was running. Start it again: it goes on with "
            f"the new ones, if its steps still fit them. cause={found[1]}"
        )
    return None
