# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""An Iceberg table: the mark of a commit is a property of its snapshot.

Iceberg cannot refuse a second commit of the same epoch, so the sink reads the snapshots right before it writes. Going
back rolls the table back to a snapshot. Later snapshots are then no longer ancestors of the current state, so no note
is necessary.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.connectors.lakehouse.table import Commit, LakeTable, Mark, create_sql, parse_mark

_PROPERTY = "mixedmode"
_SET_PROPERTY = f"spark.sql.iceberg.snapshot-property.{_PROPERTY}"
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
        is_catalog = session.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None
        self._catalog = parts[0] if is_catalog else "spark_catalog"
        self._in_catalog = ".".join(map(quoted, parts[1:] if is_catalog else parts))
        self.name = ".".join(map(quoted, parts))

    @override
    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        self.session.sql(create_sql(self.name, "iceberg", schema, partition_by))

    @override
    def stored_type(self, column_type: str) -> str:
        return _WIDENED.get(column_type, column_type)

    @override
    def commits(self, output: tuple[str, str]) -> Iterator[Commit]:
        for row in self._ancestors():
            mark = parse_mark(row.summary.get(_PROPERTY))
            own = mark is not None and (mark.job, mark.output) == output
            yield Commit(row.snapshot_id, mark if own else None, row.operation != _REPLACE)

    @override
    def knows_its_beginning(self) -> bool:
        ancestors = self._ancestors()
        return not ancestors or ancestors[-1].parent_id is None

    @override
    def write(self, sql: str, mark: Mark) -> None:
        self.session.conf.set(_SET_PROPERTY, mark.to_text())
        try:
            self.session.sql(sql).collect()
        finally:
            self.session.conf.unset(_SET_PROPERTY)

    @override
    def go_back(self, to: Commit, newest: Mark, mark: Mark) -> None:
        call = f"CALL {quoted(self._catalog)}.system.rollback_to_snapshot('{self._in_catalog}', {to.number})"
        self.session.sql(call).collect()

    @override
    def lost_file(self, to: Commit) -> str | None:
        return None  # a snapshot and its files expire together

    @override
    def note(self, newest: Mark, mark: Mark) -> None:
        self.write(f"INSERT INTO {self.name} SELECT * FROM {self.name} WHERE false", mark)

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
