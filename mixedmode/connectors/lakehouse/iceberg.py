# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""An Iceberg table: the mark of a commit is a property of its snapshot.

An epoch is written to a branch first (iceberg_branches.py), as Iceberg itself would commit it twice. Going back rolls
the table back to a snapshot. Later snapshots are then no longer ancestors of the current state, so no note is
necessary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.connectors.lakehouse.iceberg_branches import MARK_OF_BRANCH, MARK_OF_COPY, EpochBranch, set_back
from mixedmode.connectors.lakehouse.table import Commit, LakeTable, Mark, create_sql, parse_mark

_PROPERTY = "mixedmode"
_SET_PROPERTY = "spark.sql.iceberg.snapshot-property."
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_REPLACE = "replace"  # the operation of a compaction
#: Iceberg has no smaller integer types
_WIDENED = {"tinyint": "int", "smallint": "int"}


class IcebergTable(LakeTable):
    """An Iceberg table."""

    def __init__(self, session: SparkSession, path: str | None, table: str | None) -> None:
        """`session` is used by this sink only. A path is a table of its own catalog, in the folder around it."""
        self.session = session
        parts = _of_path(session, path) if path else (table or "").split(".")
        self.name = ".".join(map(quoted, parts))
        self._branch: EpochBranch | None = None  #: of the epoch that is being written

    @override
    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        self.session.sql(create_sql(self.name, "iceberg", schema, partition_by))

    @override
    def stored_type(self, column_type: str) -> str:
        return _WIDENED.get(column_type, column_type)

    @override
    def commits(self, output: tuple[str, str]) -> Iterator[Commit]:
        for row in self._ancestors():
            mark = parse_mark(row.summary.get(_PROPERTY, row.summary.get(MARK_OF_COPY)))
            own = mark is not None and (mark.job, mark.output) == output
            yield Commit(row.snapshot_id, mark if own else None, row.operation != _REPLACE)

    @override
    def knows_its_beginning(self) -> bool:
        ancestors = self._ancestors()
        return not ancestors or ancestors[-1].parent_id is None

    @property
    @override
    def target(self) -> str:
        return self.name if self._branch is None else self._branch.target

    @override
    @contextmanager
    def committing(self, output: tuple[str, str]) -> Iterator[None]:
        branch = EpochBranch(self.session, self.name, output)
        branch.begin()
        self._branch = branch
        try:
            yield
        finally:
            self._branch = None
            with suppress(PySparkException, Py4JError):  # else the next attempt removes it
                branch.end()

    @override
    def write(self, sql: str, mark: Mark) -> None:
        names = [_PROPERTY, *([] if self._branch is None else [MARK_OF_BRANCH])]
        for name in names:
            self.session.conf.set(f"{_SET_PROPERTY}{name}", mark.to_text())
        try:
            self.session.sql(sql).collect()
        finally:
            for name in names:
                self.session.conf.unset(f"{_SET_PROPERTY}{name}")
        if self._branch is not None:
            self._branch.publish(appends=sql.startswith("INSERT"))

    @override
    def go_back(self, to: Commit, newest: Mark, mark: Mark) -> None:
        set_back(self.session, self.name, (mark.job, mark.output), to.number)

    @override
    def lost_file(self, to: Commit) -> str | None:
        return None  # a snapshot and its files expire together

    @override
    def note(self, newest: Mark, mark: Mark) -> None:
        with self.committing((mark.job, mark.output)):
            self.session.sql(f"REFRESH TABLE {self.name}").collect()
            self.write(f"INSERT INTO {self.target} SELECT * FROM {self.name} WHERE false", mark)

    def _ancestors(self) -> list[Row]:
        """Return the snapshots that led to the current state of the table, newest first."""
        self.session.sql(f"REFRESH TABLE {self.name}").collect()
        # in this order: others may commit between the two reads, and the list then has one snapshot more
        main = self.session.read.table(f"{self.name}.refs").where("name = 'main'").collect()
        snapshots = {row.snapshot_id: row for row in self.session.read.table(f"{self.name}.snapshots").collect()}
        if main and main[0].snapshot_id not in snapshots:  # it has just expired, because others committed a newer one
            return self._ancestors()
        found, one = [], snapshots[main[0].snapshot_id] if main else None
        while one is not None:
            found.append(one)
            one = snapshots.get(one.parent_id)
        return found


def _of_path(session: SparkSession, path: str) -> list[str]:
    """Return the name parts of the table in a folder; set up a catalog for the folder around it."""
    folder, _, name = path.rstrip("/").rpartition("/")
    catalog = f"mixedmode_{sha256(folder.encode()).hexdigest()[:12]}"
    settings = {"": _CATALOG, ".type": "hadoop", ".warehouse": folder or "/", ".cache-enabled": "false"}
    for key, value in settings.items():
        session.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    return [catalog, name]
