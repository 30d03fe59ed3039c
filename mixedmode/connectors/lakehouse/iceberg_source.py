"""Tables of Iceberg as sources. The backlog is the table as it is, and each later epoch is what commits have added.

Iceberg's stream begins with the oldest snapshot that is left, and reads commit by commit: it stops at the first one
that changes rows, and misses rows if older snapshots have expired. So the stream of a source only tells how far there
is input, and the query has no rows of it. Its initial offset is written before each query, and the rows of an epoch are
read in batch:

    first epoch      the snapshot that was the newest one at the start, as anybody reads it; then what was added since
    later epochs     what was added between the offsets where the epoch begins and ends

Before the first epoch is committed, a start plans anew. So the snapshot of the backlog need not be stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import AtomicType, StructType
from typing_extensions import override

from mixedmode.config.calls import quoted
from mixedmode.connectors.lakehouse.errors import CHANGED
from mixedmode.connectors.lakehouse.iceberg_offsets import (
    NOTHING,
    Offset,
    Snapshot,
    after,
    before,
    last_read,
    offset_of,
)
from mixedmode.connectors.lakehouse.source import NO_LIMIT, LakehouseSource
from mixedmode.connectors.lakehouse.spec import CHOOSES_VERSION
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sources.source import Admission, ChecksBeginning, ChecksReading, ReadsRanges

__all__ = ["IcebergSource"]

#: where Iceberg's stream keeps its initial offset, in Spark's folder of a source
_INITIAL_OFFSET = "offsets/0"
_ADDS = ("append", "replace")  # operations of snapshots that change no rows: new rows, and a compaction


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The beginning of the first epoch, which reads the snapshot `whole`, and what is added after the snapshot `read`.

    whole: None if only additions are read. read: None is before all snapshots.
    """

    whole: int | None
    read: int | None


class IcebergSource(LakehouseSource, ChecksBeginning, ChecksReading, ReadsRanges):
    """A table of Iceberg in a session."""

    _beginning: _Beginning | None = None  # None: the table had no snapshot to begin with

    @override
    def look(self) -> None:
        #: the columns that the job reads; see _columns_of
        self._columns_read = _columns_of(self._table().schema())

    @override
    def batch(self) -> DataFrame:
        if self.source.starting is None:
            return self.read(self.options)
        self._check_start()
        first = self._first_snapshot()
        if first is None:  # the snapshot does not exist yet
            return self.read(self.options).where("false")
        if first.parent is None:
            return self.read(self.options)
        return self.read({**self.options, "start-snapshot-id": str(first.parent)})  # the start is exclusive

    @override
    def stream(self, admission: Admission) -> DataFrame:
        self._check_options()
        limits = {
            "streaming-max-files-per-micro-batch": str(admission.max_files or NO_LIMIT),
            "streaming-max-rows-per-micro-batch": str(admission.max_records or NO_LIMIT),
        }
        return self._own_columns(self.read_stream({**limits, **self._start(), **self.options}))

    def _check_options(self) -> None:
        """Raise InvalidJobError if an option chooses a version: batch mode reads it, and a stream does not."""
        chosen = [option for option in self.options if option.lower() in (*CHOOSES_VERSION, "end-snapshot-id")]
        if chosen:
            msg = (
                f"{self.where}: an option chooses a version or a branch of the Iceberg table, which only batch mode "
                "can read. Remove it, or set execution.runtime-mode to batch. "
                f"option={chosen[0]}, place={self.source.place}"
            )
            raise InvalidJobError(msg)

    @override
    def begin(self, folder: Path, at: str, *, is_limited: bool) -> str | None:
        offset = offset_of(at)
        if offset is None:
            self._beginning, offset, notice = self._begin_anew(is_limited=is_limited)
        else:
            notice = None
            offset = after(offset.snapshot) if offset != NOTHING else self._before_first()
        path = folder / _INITIAL_OFFSET
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # of what was there before
        path.write_text(offset.line())
        return notice

    def _begin_anew(self, *, is_limited: bool) -> tuple[_Beginning | None, Offset, str | None]:
        table = self._table()
        if self.source.starting is not None:
            first = self._first_snapshot()
            return (None, NOTHING, None) if first is None else (self._from(first), before(first), None)
        newest = table.currentSnapshot()
        if newest is None:
            return None, NOTHING, None
        if is_limited:
            snapshots = _lineage(table)
            if snapshots[0].parent is None and all(one.operation in _ADDS for one in snapshots):
                return _Beginning(None, None), before(snapshots[0]), None
        number = newest.snapshotId()
        notice = (
            f"{self.where}: the first epoch reads the whole Iceberg table at once, whatever the limits per epoch are: "
            "snapshots of it have expired, or its rows were updated or deleted, so it cannot be read commit by commit. "
            f"snapshot={number}"
        )
        has_limits = self.source.max_files_per_epoch or self.source.max_records_per_epoch
        return _Beginning(number, number), after(number), notice if is_limited and has_limits else None

    def _before_first(self) -> Offset:
        """Return the offset before the first snapshot that a stream reads which has read nothing."""
        first = self._first_snapshot()
        return NOTHING if first is None else before(first)

    @override
    def rows_between(self, session: SparkSession, before: str, now: str) -> DataFrame:
        here = self.within(session)
        here._table()  # noqa: SLF001 - its own. A catalog's cache may be older than the end of the epoch
        end = offset_of(now)
        frames = [] if end is None or end == NOTHING else here._frames(offset_of(before), end)  # noqa: SLF001
        return reduce(DataFrame.union, frames) if frames else session.createDataFrame([], self.schema)

    def _frames(self, start: Offset | None, end: Offset) -> list[DataFrame]:
        """start: None for the first epoch."""
        if start is None or start == NOTHING:
            found = self._beginning if start is None else None
            begin = found or self._first_read()
        else:
            begin = _Beginning(None, self._last_read(start))
        last = self._last_read(end)
        if begin == _Beginning(None, None) and last is not None:
            first = _lineage(self._table())[0].number  # all of its rows are new
            begin = _Beginning(first, first)
        frames = [] if begin.whole is None else [self._whole(begin.whole)]
        if last not in {None, begin.read} and end.snapshot != begin.whole:
            frames.append(self._added(begin.read, last))
        return frames

    def _first_read(self) -> _Beginning:
        """Return where a stream begins that has read nothing. Raise InvalidJobError if rows would be missed."""
        first = self._first_snapshot()
        assert first is not None, "the stream has found one"
        if self.source.starting is None and first.parent is not None:
            msg = (
                f"{self.where}: the Iceberg table was empty when the job began, and its first snapshots have expired "
                "before the job has read them, so the rows that they added cannot be told. Nothing was committed. Keep "
                "snapshots for longer than the job may stand still (history.expire.max-snapshot-age-ms), and give the "
                "job a new execution.checkpointing.dir and output: it then reads the table as it is now. "
                f"oldest_snapshot={first.number}, place={self.source.place}"
            )
            raise InvalidJobError(msg)
        return self._from(first)

    def _from(self, first: Snapshot) -> _Beginning:
        """Return where a stream begins that reads on from a snapshot. Raise InvalidJobError if it changed rows."""
        option = f"streaming-skip-{first.operation}-snapshots"
        is_skipped = any(key.lower() == option and value.lower() == "true" for key, value in self.options.items())
        if first.parent is not None and first.operation not in _ADDS and not is_skipped:
            raise InvalidJobError(CHANGED.format(option=f"{option}: true", value=f"snapshot={first.number}"))
        return _Beginning(None, first.parent)

    def _last_read(self, offset: Offset) -> int | None:
        snapshot = None
        if offset.files <= 0:
            found = self._table().snapshot(offset.snapshot)
            if found is None:
                raise self._expired(offset.snapshot)
            snapshot = _snapshot(found)
        return last_read(offset, snapshot)

    def _whole(self, number: int) -> DataFrame:
        """Return all rows of a snapshot, with the columns that the table has now."""
        table = self._table()
        if table.snapshot(number) is None:
            raise self._expired(number)
        frame = self.read({**self.options, "versionAsOf": str(number)})
        jvm: Any = self.session._jvm  # noqa: SLF001 - PySpark has no public name
        then = _columns_of(jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, number))
        if all(then.get(name) == column for name, column in self._columns_read.items()):
            return frame.select(*map(quoted, self.schema.names))
        names = {column.split(" ")[0]: name for name, column in then.items()}
        columns = []
        for field in self.schema:
            said = self._columns_read[field.name]
            name = names.get(said.split(" ")[0])
            is_plain = isinstance(field.dataType, AtomicType)
            has_default = name is None and table.schema().findField(field.name).initialDefault() is not None
            if has_default or (name is not None and then[name] != said and not is_plain):
                raise self._other_columns(field.name, number)
            old = F.lit(None) if name is None else F.col(quoted(name))
            columns.append(old.cast(field.dataType).alias(field.name))
        return frame.select(*columns)

    def _added(self, begin: int | None, last: int | None) -> DataFrame:
        """Return the rows that snapshots have added after `begin`, up to `last`."""
        assert begin is not None, "rows of the first snapshot are read as a whole"
        assert last is not None, begin
        span = {"start-snapshot-id": str(begin), "end-snapshot-id": str(last)}
        return self._own_columns(self.read({**self.options, **span}))

    def _own_columns(self, frame: DataFrame) -> DataFrame:
        """Return the columns that the table had when it was opened. Raise InvalidJobError if it lacks one by now."""
        if not set(self.schema.names) <= set(frame.columns):
            self._check_columns()
        return frame.select(*map(quoted, self.schema.names))

    @override
    def check_reading(self, before: str, now: str) -> None:
        """Raise InvalidJobError if columns of the table have changed, which its stream does not notice."""
        self._check_columns()

    def _check_columns(self) -> None:
        columns = _columns_of(self._table().schema())
        changed = [name for name, column in self._columns_read.items() if columns.get(name) != column]
        if changed:
            msg = (
                f"{self.where}: columns of the Iceberg table were dropped, renamed or got another type while the job "
                "was running, and its query would read NULL in new rows, or values that do not fit. Nothing of the "
                "epoch was committed. Start the job again: it goes on with the columns as they are now, if its steps "
                f"still fit them. columns={', '.join(changed)}, place={self.source.place}"
            )
            raise InvalidJobError(msg)

    @override
    def newest_version(self) -> tuple[str, dict[str, str]]:
        newest = self._table().currentSnapshot()
        if newest is None:
            return "no snapshot", {}
        return f"snapshot {newest.snapshotId()}", {"versionAsOf": str(newest.snapshotId())}

    @cached_property
    def version_schema(self) -> StructType:
        """The columns of a dimension: a snapshot has those of its own time."""
        option = self.newest_version()[1]
        return self.read({**self.options, **option}).schema if option else self.schema

    @override
    def check_beginning(self) -> None:
        """Raise InvalidJobError if the table does not have the snapshot with which to begin."""
        self._check_start()

    def _check_start(self) -> None:
        starting = self.source.starting
        if starting is None:
            return
        first = self._first_snapshot()
        if starting.snapshot is not None and first is None:
            there = [one.number for one in _lineage(self._table())]
            msg = (
                f"{self.where}: the table has no such snapshot; it may have expired. Choose one of those that it "
                f"has. starting.snapshot={starting.snapshot}, snapshots={there}"
            )
            raise InvalidJobError(msg)

    def _start(self) -> dict[str, str]:
        if self.source.starting is None:
            return {}
        first = self._first_snapshot()
        # a job that resumes from a checkpoint begins there, whatever this option says
        milliseconds = self.start_ms or 0 if first is None else first.committed_ms
        return {"stream-from-timestamp": str(milliseconds)}

    def _first_snapshot(self) -> Snapshot | None:
        """Return the snapshot with which a stream begins that has read nothing; None if there is none yet."""
        starting, snapshots = self.source.starting, _lineage(self._table())
        if starting is None:
            return next(iter(snapshots), None)
        if starting.snapshot is not None:
            return next((one for one in snapshots if one.number == starting.snapshot), None)
        assert self.start_ms is not None, starting
        return next((one for one in snapshots if one.committed_ms >= self.start_ms), None)

    def _table(self) -> Any:
        """Return the table as Iceberg's own object, with what it has now: Spark does not know ids and parents."""
        jvm: Any = self.session._jvm  # noqa: SLF001 - PySpark has no public name
        session = self.session._jsparkSession  # noqa: SLF001 - the same
        if self.source.path:
            conf = session.sessionState().newHadoopConf()
            return jvm.org.apache.iceberg.hadoop.HadoopTables(conf).load(self.source.path)
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self.name)
        table.refresh()  # a catalog keeps tables in a cache
        return table

    def _expired(self, number: int) -> RetryableError:
        msg = (
            f"{self.where}: a snapshot of the Iceberg table has expired before its rows were read. Nothing of the "
            "epoch was committed. Start the job again: without a checkpoint, it reads the table as it is then. Keep "
            "snapshots for longer than a backlog takes, and than the job may stand still "
            f"(history.expire.max-snapshot-age-ms). snapshot={number}, place={self.source.place}"
        )
        return RetryableError(msg)

    def _other_columns(self, name: str, number: int) -> InvalidJobError:
        msg = (
            f"{self.where}: a column of the Iceberg table has changed since the table's newest snapshot, so that Spark "
            "cannot read the rows of the snapshot with the column as it is now. Nothing was committed. Start the job "
            "again after the next commit, such as a compaction (rewrite_data_files). "
            f"column={name}, snapshot={number}, place={self.source.place}"
        )
        return InvalidJobError(msg)


def _columns_of(schema: Any) -> Mapping[str, str]:
    """Return {column: its id and type} of a schema. A column that is dropped and added has another id."""
    return {column.name(): f"{column.fieldId()} {column.type().toString()}" for column in schema.columns()}


def _lineage(table: Any) -> list[Snapshot]:
    """Return the snapshots that led to the current state of a table and are left, oldest first."""
    found: list[Snapshot] = []
    one = table.currentSnapshot()
    while one is not None:
        found.append(_snapshot(one))
        one = None if found[-1].parent is None else table.snapshot(found[-1].parent)
    return found[::-1]


def _snapshot(one: Any) -> Snapshot:
    return Snapshot(one.snapshotId(), one.parentId(), one.operation(), one.timestampMillis())
