"""Tables of Delta Lake and Iceberg as sources, through the formats' own readers.

A stream reads the rows that commits have added to the table. The formats' limits per micro-batch are set so high that
the first micro-batch reads everything that exists. Settings under which rows would silently not be read are refused.
"""

import json
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.config.instants import milliseconds_from, parse_time
from mixedmode.connectors.lakehouse.spec import TableSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import hidden, resolve_all
from mixedmode.sources.source import Admission, ChecksBeginning, ChecksReading, OpenSource
from mixedmode.sources.versions import HasVersions, TableVersion, columns_changed
from mixedmode.spark.errors import spark_text
from mixedmode.spark.file_lengths import file_lengths

#: a limit that never applies. Delta's own default of 1,000 files would cut a backlog into several epochs
_NO_LIMIT = str(2**31 - 1)
#: options of Delta's reader, in lower case, with which a stream reads past commits that remove rows
_SKIPS_REMOVALS = ("skipchangecommits", "ignoredeletes", "ignorechanges")


class LakehouseSource(OpenSource, ChecksBeginning, ChecksReading, HasVersions):
    """A table in a session."""

    def __init__(self, session: SparkSession, source: TableSourceSpec, *, where: str) -> None:
        """Raise InvalidJobError, beginning with `where`, if the table or a reader for it does not exist."""
        self._session = session
        self._source = source
        self._where = where
        self._options = resolve_all(source.options, where=where)
        self._start_ms = None if source.starting is None else _milliseconds(source.starting.timestamp, where)
        try:
            #: the columns of an Iceberg table that the job reads; see _iceberg_columns
            self._columns_read = self._iceberg_columns() if source.format == "iceberg" else {}
            self.schema = self._read({}).schema
        except (PySparkException, Py4JError) as error:
            raise self._not_there(error) from error

    @override
    def batch(self) -> DataFrame:
        if self._source.starting is None:
            return self._read(self._options)
        if self._source.format == "delta":
            msg = (
                f"{self._where}: Delta reads a table from a version on only as a stream, and batch mode has none. "
                f"Remove `starting`, or set execution.runtime-mode to mixed. place={self._source.place}"
            )
            raise InvalidJobError(msg)
        self._check_start()
        first = self._first_snapshot()
        if first is None:  # the snapshot does not exist yet
            return self._read(self._options).where("false")
        if first.parent_id is None:
            return self._read(self._options)
        return self._read({**self._options, "start-snapshot-id": str(first.parent_id)})  # the start is exclusive

    @override
    def stream(self, admission: Admission) -> DataFrame:
        options = {**self._limits(admission), **self._start(), **self._options}
        reader = self._session.readStream.format(self._source.format).options(**options)
        return reader.load(self._source.path) if self._source.path else reader.table(self._name)

    @override
    def check_reading(self, before: str, now: str) -> None:
        """Raise InvalidJobError if columns of an Iceberg table have changed, which its streams do not notice, or if
        rows of a Delta table were restored, and Delta's stream, which skips their removal, reads them again.
        """
        if self._source.format == "iceberg":
            self._check_columns()
        elif now != before and any(self._has_option(name) for name in _SKIPS_REMOVALS):
            self._check_restores(_version_of(before), _version_of(now))

    def _check_columns(self) -> None:
        columns = self._iceberg_columns()
        changed = [name for name, column in self._columns_read.items() if columns.get(name) != column]
        if changed:
            msg = (
                f"{self._where}: columns of the Iceberg table were dropped, renamed or got another type while the job "
                "was running, and its query would read NULL in new rows, or values that do not fit. Nothing of the "
                "epoch was committed. Start the job again: it goes on with the columns as they are now, if its steps "
                f"still fit them. columns={', '.join(changed)}, place={self._source.place}"
            )
            raise InvalidJobError(msg)

    def _check_restores(self, first: int | None, last: int | None) -> None:
        """first, last: the versions between which an epoch has read; None: it has read what there was at the start."""
        if first is None or last is None:
            return
        place = f"delta.{quoted(self._source.path)}" if self._source.path else self._name
        history = f"DESCRIBE HISTORY {place} LIMIT"
        (newest,) = self._session.sql(f"{history} 1").collect()
        rows = self._session.sql(f"{history} {max(newest.version - first, 0) + 1}").where("operation = 'RESTORE'")
        for row in rows.collect():
            if first <= row.version <= last and self._reads_restored(row.operationMetrics):
                msg = (
                    f"{self._where}: the Delta table was set back (RESTORE), and its stream, which skips the removal "
                    "of rows as the source's options say, would read rows again that have come back. Nothing of the "
                    "epoch was committed. Give the job a new execution.checkpointing.dir and output: it then reads "
                    f"the table as it is now. version={row.version}, place={self._source.place}"
                )
                raise InvalidJobError(msg)

    def _reads_restored(self, metrics: Mapping[str, str]) -> bool:
        """Return whether a stream reads files that came back; with skipChangeCommits, it skips a commit that also
        removes files.
        """
        if metrics.get("numRestoredFiles") == "0":
            return False
        return metrics.get("numRemovedFiles") == "0" or not self._has_option("skipchangecommits")

    def _has_option(self, name: str) -> bool:
        return any(key.lower() == name and value.lower() == "true" for key, value in self._options.items())

    def _iceberg_columns(self) -> dict[str, str]:
        """Return {column: its id and type} of an Iceberg table. A column that is dropped and added has another id."""
        jvm: Any = self._session._jvm  # noqa: SLF001 - Spark does not know the ids
        session = self._session._jsparkSession  # noqa: SLF001 - the same
        if self._source.path:
            conf = session.sessionState().newHadoopConf()
            table = jvm.org.apache.iceberg.hadoop.HadoopTables(conf).load(self._source.path)
        else:
            table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self._name)
            table.refresh()  # a catalog keeps tables in a cache
        return {column.name(): f"{column.fieldId()} {column.type().toString()}" for column in table.schema().columns()}

    @override
    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        here = copy(self)
        here._session = session  # noqa: SLF001 - its own
        name, option = here._newest_version()  # noqa: SLF001
        if before is not None and before.name == name:
            return before
        frame = here._read({**self._options, **option})  # noqa: SLF001
        columns = {column.name: column.dataType for column in frame.schema}
        if any(columns.get(column.name) != column.dataType for column in self.version_schema):
            raise columns_changed(self._where, self._source.place)
        frame = frame.select(*map(quoted, self.version_schema.names))
        frame = frame if option else frame.where("false")
        return TableVersion(name, frame, lost=partial(_lost_file, frame))

    @cached_property
    def version_schema(self) -> StructType:
        """The columns of a dimension; of an Iceberg table, a snapshot has those of its own time."""
        option = self._newest_version()[1] if self._source.format == "iceberg" else {}
        return self._read({**self._options, **option}).schema if option else self.schema

    def _newest_version(self) -> tuple[str, dict[str, str]]:
        """Return the name of the newest version, and the option that reads it; none if nothing was ever written."""
        if self._source.format == "iceberg":
            snapshots = self._snapshots()
            if not snapshots:
                return "no snapshot", {}
            number = snapshots[-1].snapshot_id
            return f"snapshot {number}", {"versionAsOf": str(number)}
        place = f"delta.{quoted(self._source.path)}" if self._source.path else self._name
        history = self._session.sql(f"DESCRIBE HISTORY {place} LIMIT 1")
        # with its time, because a table that was dropped and created again has the same numbers
        (newest,) = history.selectExpr("version", "date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS at").collect()
        return f"version {newest.version} of {newest.at}", {"versionAsOf": str(newest.version)}

    @override
    def check_beginning(self) -> None:
        """Raise InvalidJobError if a stream of an Iceberg table would miss rows: it begins with the oldest snapshot
        that is left, which must be the first one of the table.
        """
        if self._source.format == "delta":
            return
        if self._source.starting is not None:
            self._check_start()
            return
        snapshots = self._snapshots()
        if snapshots and snapshots[0].parent_id is not None:
            msg = (
                f"{self._where}: the table's oldest snapshots have expired, and Iceberg's stream begins with the "
                "oldest one that is left: what those before it added would not be read. Read the table in batch mode, "
                "or say with `starting` from where on to read. "
                f"place={self._source.place}, oldest_snapshot={snapshots[0].snapshot_id}"
            )
            raise InvalidJobError(msg)

    def _check_start(self) -> None:
        starting = self._source.starting
        if starting is not None and starting.snapshot is not None and self._first_snapshot() is None:
            there = [one.snapshot_id for one in self._snapshots()]
            msg = (
                f"{self._where}: the table has no such snapshot; it may have expired. Choose one of those that it "
                f"has. starting.snapshot={starting.snapshot}, snapshots={there}"
            )
            raise InvalidJobError(msg)

    def _read(self, options: dict[str, str]) -> DataFrame:
        reader = self._session.read.format(self._source.format).options(**options)
        return reader.load(self._source.path) if self._source.path else reader.table(self._name)

    def _limits(self, admission: Admission) -> dict[str, str]:
        files = str(admission.max_files or _NO_LIMIT)
        if self._source.format == "iceberg":
            records = str(admission.max_records or _NO_LIMIT)
            return {"streaming-max-files-per-micro-batch": files, "streaming-max-rows-per-micro-batch": records}
        if admission.max_bytes is None:
            return {"maxFilesPerTrigger": files}
        return {"maxFilesPerTrigger": files, "maxBytesPerTrigger": str(admission.max_bytes)}

    def _start(self) -> dict[str, str]:
        starting = self._source.starting
        if starting is None:
            return {}
        if self._source.format == "iceberg":
            first = self._first_snapshot()
            # a job that resumes from a checkpoint begins there, whatever these options say
            milliseconds = self._start_ms or 0 if first is None else _milliseconds_of(first)
            return {"stream-from-timestamp": str(milliseconds)}
        if starting.version is not None:
            return {"startingVersion": str(starting.version)}
        assert self._start_ms is not None, starting
        at = datetime.fromtimestamp(self._start_ms / 1000, UTC)  # with its offset, whatever the session's time zone is
        return {"startingTimestamp": at.isoformat(sep=" ", timespec="milliseconds")}

    def _first_snapshot(self) -> Row | None:
        """Return Iceberg's snapshot with which to begin; None if no snapshot matches."""
        starting = self._source.starting
        assert starting is not None, self._source
        snapshots = self._snapshots()
        if starting.snapshot is not None:
            return next((one for one in snapshots if one.snapshot_id == starting.snapshot), None)
        assert self._start_ms is not None, starting
        return next((one for one in snapshots if _milliseconds_of(one) >= self._start_ms), None)

    def _snapshots(self) -> list[Row]:
        """Return the snapshots of an Iceberg table that led to its current state, oldest first."""
        place, reader = self._source.path, self._session.read.format("iceberg")
        if not place:  # a catalog keeps tables in a cache, as long as they are asked for
            self._session.sql(f"REFRESH TABLE {self._name}").collect()
        # in this order: others may commit between the two reads, and the list then has one snapshot more
        refs = reader.load(f"{place}#refs") if place else reader.table(f"{self._name}.refs")
        current = [row.snapshot_id for row in refs.where("name = 'main'").collect()]
        frame = reader.load(f"{place}#snapshots") if place else reader.table(f"{self._name}.snapshots")
        every: dict[Any, Row] = {row.snapshot_id: row for row in frame.collect()}
        if current and current[0] not in every:  # it has just expired, because others committed a newer one
            return self._snapshots()
        newest = max(every.values(), key=lambda row: row.committed_at, default=None)
        one = every[current[0]] if current else newest
        found: list[Row] = []
        while one is not None:
            found.insert(0, one)
            one = every.get(one.parent_id)
        return found

    @property
    def _name(self) -> str:
        assert self._source.table is not None, self._source
        return ".".join(map(quoted, self._source.table.split(".")))

    def _not_there(self, error: BaseException) -> InvalidJobError:
        msg = (
            f"{self._where}: Spark cannot open this table. Create it before the job starts, or correct the name; and "
            "see that Spark has the jars and the catalog for it. "
            f"place={self._source.place}, cause={hidden(spark_text(error))[:500]}"
        )
        return InvalidJobError(msg)


def _lost_file(version: DataFrame) -> str | None:
    """Return which file of a version is gone, as after a removal of old versions; None if all exist."""
    try:
        files = version.inputFiles()
        found = file_lengths(version.sparkSession, files, {})
    except (PySparkException, Py4JError) as error:
        return f"its files cannot be listed ({hidden(spark_text(error))[:300]})"
    return next((f"{file} is gone" for file in files if file not in found), None)


def _version_of(offset: str) -> int | None:
    """Return the version in a line of Spark's offset log of a Delta table; None if the line has none."""
    return None if offset in {"", "-"} else int(json.loads(offset)["reservoirVersion"])


def _milliseconds(text: str | None, where: str) -> int | None:
    if text is None:
        return None
    found = parse_time(text)
    if found is None:
        msg = (
            f"{where}: this is no time of at most microseconds. Write it as 2026-01-31 08:00:00, or with an offset "
            f"such as +01:00; without one it is UTC. starting.timestamp={text}"
        )
        raise InvalidJobError(msg)
    return milliseconds_from(found if found.tzinfo else found.replace(tzinfo=UTC))


def _milliseconds_of(snapshot: Row) -> int:
    return round(float(snapshot.committed_at.timestamp()) * 1000)
