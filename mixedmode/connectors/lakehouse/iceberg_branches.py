"""The commit of an epoch to an Iceberg table, in a branch of its own first: so two starts cannot both commit an epoch.

Iceberg appends whatever it is given, also twice. So the rows go to a branch, and the table takes the snapshot of the
branch over (a cherry-pick) in one commit that also removes the branch. That commit fails

* if the branch is gone: another start has begun after this one, or has set the table back;
* if the table has the epoch already: its mark is the `wap.id` of the snapshot, of which Iceberg takes each one once;
* of a merge, which the table takes over as it is (a fast-forward), if any other commit came in between.

    begin     create the branch, and remove those of other starts     then the sink checks the history of the table
    write     the rows, to the branch
    publish   take the snapshot over, and remove the branch

Without commits of others, the snapshot of the branch itself becomes the current one. Else Iceberg makes another one of
it, whose mark is its `published-wap-id`.
"""

import json
import secrets
from hashlib import sha256
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["MARK_OF_BRANCH", "MARK_OF_COPY", "EpochBranch", "set_back"]

#: properties of a snapshot of a branch, and of the one that Iceberg makes of it
MARK_OF_BRANCH, MARK_OF_COPY = "wap.id", "published-wap-id"
_MAIN = "main"
_OVERTAKEN = "CommitFailedException: another start of the job has written to the table, or has set it back"

_Java = Any  # an object of the JVM


class EpochBranch:
    """The branch of one attempt to commit an epoch."""

    def __init__(self, session: SparkSession, table: str, output: tuple[str, str]) -> None:
        """table: its name in SQL. output: (job, output)."""
        self._session, self._table = session, table
        self._prefix = _prefix(output)
        self._name = f"{self._prefix}{secrets.token_hex(4)}"
        self._head: int | None = None  #: the snapshot of the table at the beginning

    @property
    def target(self) -> str:
        """Return the name of the branch in SQL."""
        return f"{self._table}.`branch_{self._name}`"

    def begin(self) -> None:
        """Create the branch."""
        table = _load(self._session, self._table)
        if table.currentSnapshot() is None:  # a merge cannot be taken over by a table without any
            table.newFastAppend().commit()
            table.refresh()
        self._head = int(table.currentSnapshot().snapshotId())
        change = table.manageSnapshots().createBranch(self._name, self._head)
        _without(change, table, self._prefix).commit()

    def publish(self, *, appends: bool) -> None:
        """Let the table take over what was written. Raise PySparkException or Py4JError if it must not.

        appends: the rows stand beside whatever rows the table has.
        """
        table = _load(self._session, self._table)
        branch = table.refs().get(self._name)
        if branch is None:
            raise PySparkException(_OVERTAKEN)
        staged = int(branch.snapshotId())
        if staged == self._head:
            return
        if table.snapshot(staged).parentId() != self._head:  # a write to a branch that is gone makes it anew
            raise PySparkException(_OVERTAKEN)
        change = table.manageSnapshots()
        change = change.cherrypick(staged) if appends else change.fastForwardBranch(_MAIN, self._name)
        change.removeBranch(self._name).commit()

    def end(self) -> None:
        """Remove the branch if it still exists."""
        table = _load(self._session, self._table)
        if table.refs().containsKey(self._name):
            table.manageSnapshots().removeBranch(self._name).commit()


def set_back(session: SparkSession, table: str, output: tuple[str, str], snapshot: int) -> None:
    """Set a table back to a snapshot, and remove all branches of an output, in one commit."""
    found = _load(session, table)
    _without(found.manageSnapshots().rollbackTo(snapshot), found, _prefix(output)).commit()


def _without(change: _Java, table: _Java, prefix: str) -> _Java:
    for name in table.refs().keySet():
        change = change.removeBranch(name) if name.startswith(prefix) else change
    return change


def _load(session: SparkSession, table: str) -> _Java:
    jvm: _Java = session.sparkContext._jvm  # noqa: SLF001 - Spark has no public way to the JVM
    found = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, table)  # noqa: SLF001
    found.refresh()
    return found


def _prefix(output: tuple[str, str]) -> str:
    return f"mixedmode_{sha256(json.dumps(output).encode()).hexdigest()[:12]}_"
