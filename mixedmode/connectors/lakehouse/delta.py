# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""A Delta table: the mark of a commit is its user metadata, and Delta's transaction ids detect repeats.

Delta accepts a commit with (application, version) only if the application has not committed that version yet. The
commit itself checks this, so it holds for any number of writers. The application is the output of the job, and the
version is the epoch.

After going back, epochs with the same numbers follow, and Delta would take them for repeats. So each past has its own
application. The application of an abandoned past is closed with the greatest possible version: a start of that past
that still writes changes nothing. It is closed before the table is set back; if that fails, epochs that follow belong
to the next past (`newest_mark`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.connectors.lakehouse.table import Commit, LakeTable, Mark, create_sql, parse_mark
from mixedmode.spark.file_lengths import file_lengths

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_VERSION_MAX = 2**63 - 1
#: the file of deleted rows that a data file keeps
_DELETIONS = re.compile(r"\S*deletion_vector_[\w-]+\.bin")
_LOOK_FIRST = 20  # commits; the newest mark is nearly always among them, and each commit is a file to read
#: operations that do not change rows
_QUIET = {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG"}

#: operations that begin a table anew, with and without rows
_REPLACES = ("REPLACE TABLE", "CREATE OR REPLACE TABLE")
_OLDEST = 1  # version 0 creates the table


class DeltaTable(LakeTable):
    """A Delta table."""

    def __init__(self, session: SparkSession, path: str | None, table: str | None) -> None:
        """`session` is used by this sink only, because its settings change from commit to commit."""
        self.session = session
        self.name = f"delta.{quoted(path)}" if path else ".".join(map(quoted, (table or "").split(".")))

    @override
    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        self.session.sql(create_sql(self.name, "delta", schema, partition_by))

    @override
    def stored_type(self, column_type: str) -> str:
        return column_type

    @override
    def commits(self, output: tuple[str, str]) -> Iterator[Commit]:
        """Yield an epoch whose rows are gone, because others have set the table back, as one of a closed past."""
        undone_from: int | None = None
        for row in self._history():
            commit = _commit(row, output)
            if undone_from is not None and row.version >= undone_from:
                yield replace(commit, mark=commit.mark and replace(commit.mark, kind="closed"))
                continue
            if commit.mark is None:
                undone_from = _undoes_from(row) or undone_from
            yield commit

    def _history(self) -> Iterator[Row]:
        seen = 0
        for limit in (f" LIMIT {_LOOK_FIRST}", ""):
            rows = self.session.sql(f"DESCRIBE HISTORY {self.name}{limit}").collect()
            yield from rows[seen:]
            if len(rows) < _LOOK_FIRST:
                return
            seen = len(rows)

    @override
    def knows_its_beginning(self) -> bool:
        versions = self.session.sql(f"DESCRIBE HISTORY {self.name}").selectExpr("min(version)").collect()
        return bool(versions[0][0] == 0)

    @override
    def committing(self, output: tuple[str, str]) -> AbstractContextManager[None]:
        return nullcontext()  # the transaction id of the commit refuses a repeat

    @override
    def write(self, sql: str, mark: Mark) -> None:
        with self._committing(mark, {"epoch": mark.epoch, "closed": _VERSION_MAX}.get(mark.kind)):
            self.session.sql(sql).collect()

    @override
    def go_back(self, to: Commit, newest: Mark, mark: Mark) -> None:
        self._close(newest)
        with self._committing(replace(mark, past=newest.past + 1), None):
            self.session.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {to.number}").collect()

    @override
    def lost_file(self, to: Commit) -> str | None:
        now = self.session.read.table(self.name)
        then = self.session.sql(f"SELECT * FROM {self.name} VERSION AS OF {to.number}")
        needed = sorted({*then.inputFiles()} - {*now.inputFiles()})
        found = file_lengths(self.session, needed, {})
        lost = next((file for file in needed if file not in found), None)
        return lost or (_lost_deletions(then) if self._may_have_deletion_vectors() else None)

    def _may_have_deletion_vectors(self) -> bool:
        """Return whether a commit to which the table may go back can have them: dropping the feature is a change."""
        (detail,) = self.session.sql(f"DESCRIBE DETAIL {self.name}").collect()
        return "deletionVectors" in (detail.tableFeatures or ())

    @override
    def note(self, newest: Mark, mark: Mark) -> None:
        self._close(newest)
        mark = replace(mark, past=newest.past + 1)
        with self._committing(mark, max(mark.epoch, 0)):
            self._write_nothing()

    def _close(self, newest: Mark) -> None:
        with self._committing(replace(newest, kind="closed"), _VERSION_MAX):
            self._write_nothing()

    def _write_nothing(self) -> None:
        self.session.sql(f"INSERT INTO {self.name} SELECT * FROM {self.name} WHERE false").collect()

    @contextmanager
    def _committing(self, mark: Mark, version: int | None) -> Iterator[None]:
        settings = {_METADATA: mark.to_text()}
        if version is not None:
            settings |= {_TXN_APP: _application(mark), _TXN_VERSION: str(version)}
        with _set(self.session, settings):
            yield


def _application(mark: Mark) -> str:
    return f"mixedmode:{mark.job}:{mark.output}:{mark.past}"


def _commit(row: Row, output: tuple[str, str]) -> Commit:
    mark = parse_mark(row.userMetadata)
    own = mark is not None and (mark.job, mark.output) == output
    return Commit(row.version, mark if own else None, row.operation not in _QUIET)


def _undoes_from(row: Row) -> int | None:
    """Return the oldest version whose rows a commit has undone; None for a commit that keeps the rows.

    A table that was set back to a time may lack all of them: the time is text in an unknown time zone.
    """
    if row.operation == "RESTORE":
        version = row.operationParameters.get("version")
        return _OLDEST if version is None else int(version) + 1
    return _OLDEST if row.operation.startswith(_REPLACES) else None


def _lost_deletions(version: DataFrame) -> str | None:
    """Return a file of deletion vectors that a version of the table needs, and that does not exist; None if all do.

    A version does not list these files, so a scan opens all of them. It has no columns, so it reads no values. Its
    condition is one that Spark cannot decide without the files.
    """
    try:
        version.where("_metadata.row_index < 0").selectExpr("1").collect()
    except (PySparkException, Py4JError) as error:
        found = _DELETIONS.search(str(error))
        if found is None:
            raise
        return found[0]
    return None


@contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings for the block. Only this sink uses the session, so they are not restored."""
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(key)
