# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""Tables of Delta Lake and Iceberg as outputs: an epoch is one commit of the table, with a mark that names the epoch.

    append   every row, with `_epoch` (and `_op`, if the output has key columns) where the table has such columns
    merge    one row per key: MERGE INTO, the last row of each key in the epoch counts

The table's own history records that an epoch is published, in the same commit as the rows. So a repeat after a crash
between any two steps detects the published epoch, and changes nothing. The staged files are deleted last.

Invariants (tests/lakehouse):
  I1  after publish returns, the table has the rows of the epoch once, and no file of it is staged
  I2  a repeated publish changes nothing more, also after a publish that was interrupted anywhere
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType
from typing_extensions import override

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.contents import NOTHING, content_after
from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile
from mixedmode.checkpoint.verify import file_problem
from mixedmode.connectors.lakehouse.checks import (
    ANOTHER_PAST,
    check_history,
    check_owner,
    columns_to_write,
    is_of_manifest,
    is_published,
    no_epoch,
)
from mixedmode.connectors.lakehouse.delta import DeltaTable
from mixedmode.connectors.lakehouse.errors import is_conflict, output_problem
from mixedmode.connectors.lakehouse.iceberg import IcebergTable
from mixedmode.connectors.lakehouse.spec import TableSinkSpec
from mixedmode.connectors.lakehouse.table import (
    NO_EPOCH,
    OP_COLUMN,
    STAGED_VIEW,
    Columns,
    Commit,
    LakeTable,
    Mark,
    MarkKind,
    WayBack,
    decide_way_back,
    insert_sql,
    last_rows,
    merge_sql,
    newest_mark,
    replace_sql,
    replacing_rows,
)
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.secrets import hidden
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.staged import StagedSink
from mixedmode.spark.errors import spark_text
from mixedmode.spark.temporary_views import set_view
from mixedmode.time.window_range import ReplacedRows

_CAUSE_LENGTH_MAX = 500
_REPEATS = 4  # of a commit, after others have come in between
_PUBLISHED_LATER = "What is committed stays so, and is published when the job is started again, or repeats the epoch."
_BACKFILL_AGAIN = (
    "Nothing was replaced. If the cause is a commit of the job, which comes in between whenever the interval of its "
    "checkpoints is shorter than this takes: pause the job (`mixedmode pause`), and do the same again."
)


@dataclass(frozen=True, slots=True)
class _Prepared:
    columns: Columns
    added: tuple[str, ...]  # columns of this program
    merges: bool
    names: tuple[str, ...]  # names of the columns that are written


class LakehouseSink(StagedSink):
    """An output in a table of Delta Lake or Iceberg."""

    can_roll_back = True
    cannot_report_published = False

    def __init__(self, spec: TableSinkSpec, context: SinkContext) -> None:
        """Store the settings; access nothing outside until `prepare` is called."""
        super().__init__(context.staging)
        self._spec = spec
        self._context = context
        self._opened: LakeTable | None = None
        self._prepared: _Prepared | None = None
        self._seen = NO_EPOCH  # the newest epoch seen in the table; there may be later epochs
        self._content = NOTHING  # the digest of the table, as this start has left it

    @override
    def prepare(self, fields: Sequence[pa.Field], key_columns: Sequence[str], *, is_fresh: bool) -> None:
        """Create or check the table. Rows of others may be in it, except in a batch run, which replaces all rows."""
        columns = Columns(tuple(fields), tuple(key_columns))
        merges = bool(key_columns) if self._spec.mode is None else self._spec.mode == "merge"
        if merges and not key_columns:
            msg = (
                "merge goes by key, and this output has no key columns. Set mode: append, or end the job's steps with "
                f"a keyed one. {self._where}"
            )
            raise InvalidJobError(msg)
        added = () if merges else ((OP_COLUMN,) if key_columns else ()) + (EPOCH_COLUMN,)
        schema = columns.schema
        for name in added:
            schema = schema.add(name, LongType() if name == EPOCH_COLUMN else StringType())
        missing = sorted(set(self._spec.partition_by) - set(schema.names))
        if missing:
            msg = (
                "a table can be partitioned by columns of its output only. Correct partition-by. "
                f"not a column={missing[0]!r}, columns={schema.names}, {self._where}"
            )
            raise InvalidJobError(msg)
        with self._outside("prepare"):
            if is_fresh or self._context.replaces:
                self._table.create(schema, self._spec.partition_by)
            names = columns_to_write(self._table, columns, added, self._where)
            newest, replaces = self._newest_mark(), self._context.replaces
            check_history(self._table, newest, is_fresh=is_fresh, replaces=replaces, where=self._where)
            if self._context.generation:  # neither a batch run nor a restore, which takes the table over
                check_owner(newest, self.owner(), self._where)
            self._content = _content_of(newest)
        self._prepared = _Prepared(columns, added, merges, names)
        if self._context.replaces:  # this run cannot use what a failed batch run has staged
            self.store.delete([path for path, _ in self.store.list(output_paths.STAGING)])

    @override
    def is_new(self) -> bool:
        return not any(commit.mark is not None for commit in self._commits())

    @override
    def publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        if self._context.replaces:
            self._replace(staged)
        elif staged:
            with self._outside("publish an epoch to"):
                _repeated(lambda: self._publish(epoch, staged))
        else:
            return
        reach("table-committed", epoch)
        self.delete_staged(staged)

    @override
    def problem(self, file: StagedFile, *, reads: bool) -> tuple[str, str] | None:
        """Report no problem for a missing file if the table says that it was published."""
        for _ in range(2):  # it may be published at this moment
            if self.store.exists(file.staged_path):
                found = file_problem(self.store, file.staged_path, size=file.bytes, checksum=file.checksum, reads=reads)
                if found is None or self.store.exists(file.staged_path):
                    return None if found is None else (file.staged_path, found)
            parsed = output_paths.parse_staged_path(file.staged_path)
            if parsed is not None and (parsed.epoch <= self._seen or parsed.epoch <= self._look()):
                return None
        return file.staged_path, "does not exist, and the table does not have its epoch"

    @override
    def newest_published(self) -> Epoch | None:
        newest = self._look()
        return None if newest == NO_EPOCH else Epoch(newest)

    @override
    def oldest_published(self) -> Epoch | None:
        epochs = [commit.mark.epoch for commit in self._commits() if commit.mark and commit.mark.kind == "epoch"]
        return Epoch(min(epochs)) if epochs else None

    @override
    def obstacle(self, manifest: Manifest) -> str | None:
        """Return the reason if somebody else has written to the table since the checkpoint, or has made it anew."""
        with self._outside("look at"):
            is_own = is_of_manifest(self._commits(), manifest, self._context.name)
            if self._look() == NO_EPOCH and not is_own:
                return str(no_epoch(self._table, self._where))
            way = self._way_back(manifest.epoch)
        if isinstance(way, str):
            return way
        return None if is_own else ANOTHER_PAST.format(epoch=manifest.epoch, where=self._where)

    @override
    def roll_back(self, after: Epoch) -> int:
        with self._outside("roll epochs back in"):
            later = self._roll_back(after)
            self._take_over()
            self._content = _content_of(self._newest_mark())
        self._seen = NO_EPOCH
        return later + self.delete_staged_after(after)

    @override
    def no_replacement(self, replaced: ReplacedRows) -> str | None:
        return None

    @override
    def replace_windows(self, rows: pa.Table, replaced: ReplacedRows, before: Epoch) -> None:
        """Replace also rows of these windows that others wrote: a row does not say who wrote it."""
        names = self._ready.names
        with self._outside("replace windows of", then=_BACKFILL_AGAIN):
            given = replacing_rows(rows, names, before)
            set_view(self._table.session, STAGED_VIEW, self._table.session.createDataFrame(given))
            check_owner(self._newest_mark(), self.owner(), self._where)
            sql, mark = replace_sql(self._table.name, names, replaced), self._mark("backfill", before, 0)
            _repeated(lambda: self._table.write(sql, mark))
        reach("table-committed", before)

    def _publish(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        with self._table.committing(self._output):
            self._publish_once(epoch, staged)

    def _publish_once(self, epoch: Epoch, staged: Sequence[StagedFile]) -> None:
        waiting = [file for file in staged if self.store.exists(file.staged_path)]
        newest = self._newest_mark()
        if newest is None and self._content != NOTHING:
            raise no_epoch(self._table, self._where)
        past = 0 if newest is None else newest.past
        mark = self._mark("epoch", epoch, past, content_after(self._content, epoch, staged))
        if is_published(newest, mark, self._content, self._where):
            self._content = _content_of(newest)
            return
        if len(waiting) < len(staged):
            gone = next(file.staged_path for file in staged if file not in waiting)
            msg = (
                "an output of a committed epoch is lost: its staged file is gone, and the table does not have the "
                "epoch. Find out what deletes files of the checkpoint folder, and start the job again: it goes "
                f"back to an older checkpoint. file={self.store.url}/{gone}, epoch={epoch}, {self._where}"
            )
            raise CorruptStateError(msg)
        self._write(staged, mark)

    def _write(self, staged: Sequence[StagedFile], mark: Mark) -> None:
        """Write an epoch. Raise InvalidJobError if that fails because the table has other columns than at the start."""
        try:
            self._table.write(self._put(staged), mark)
        except (PySparkException, Py4JError):
            columns_to_write(self._table, self._ready.columns, self._ready.added, self._where)
            raise
        self._seen, self._content = mark.epoch, mark.content

    def _put(self, staged: Sequence[StagedFile]) -> str:
        """Return the statement that writes the staged rows to the table, after the rows are registered as a view."""
        prepared = self._ready
        rows = self._rows(staged)
        if prepared.merges:
            set_view(self._table.session, STAGED_VIEW, last_rows(rows, prepared.columns))
            return merge_sql(self._table.target, prepared.columns)
        set_view(self._table.session, STAGED_VIEW, rows)
        return insert_sql(self._table.target, prepared.names)

    def _replace(self, staged: Sequence[StagedFile]) -> None:
        """Replace all rows by those of a batch run. There is no repeat: a batch run that fails starts over."""
        prepared = self._ready
        mark = self._mark("batch", NO_EPOCH, 0)
        with self._outside("replace the rows of"):
            if not staged:
                self._table.write(f"DELETE FROM {self._table.name}", mark)
                return
            rows = self._rows(staged)
            if prepared.merges:
                rows = last_rows(rows, prepared.columns).where(f"{OP_COLUMN} <> 'delete'")
            set_view(self._table.session, STAGED_VIEW, rows)
            self._table.write(insert_sql(self._table.name, prepared.names, overwrites=True), mark)

    def _rows(self, staged: Sequence[StagedFile]) -> DataFrame:
        columns = self._ready.columns
        schema = columns.schema.add(EPOCH_COLUMN, LongType())
        if columns.key:
            schema = schema.add(OP_COLUMN, StringType())
        url = self.store.url
        folder = f"s3a://{url.removeprefix('s3://')}" if url.startswith("s3://") else url  # as Spark calls it
        files = [f"{folder}/{file.staged_path}" for file in staged]
        return self._table.session.read.schema(schema).parquet(*files)

    def _roll_back(self, after: Epoch) -> int:
        way = self._way_back(after)
        if isinstance(way, str):
            raise InvalidJobError(way)
        if way is None:
            return 0
        mark = self._mark("back", after, way.newest.past, _content_of(None if way.to is None else way.to.mark))
        if way.to is not None:
            self._table.go_back(way.to, way.newest, mark)
        else:
            closed = self._mark("closed", way.newest.epoch, way.newest.past)
            self._table.write(f"DELETE FROM {self._table.name}", closed)
            self._table.note(way.newest, mark)
        return len({commit.mark.epoch for commit in way.since if commit.mark and commit.mark.kind == "epoch"})

    def _take_over(self) -> None:
        """Make the table that of this checkpoint folder, into which a savepoint is restored."""
        newest = self._newest_mark()
        if newest is not None and newest.owner != self.owner():
            self._table.note(newest, self._mark("back", newest.epoch, newest.past, newest.content))

    def _way_back(self, after: Epoch) -> WayBack | str | None:
        """Return how to go back; None if no later epoch is in the table; an error text if it is impossible."""
        way = decide_way_back(self._commits(), after, self._table.knows_its_beginning)
        if isinstance(way, WayBack) and way.to is not None:
            lost = self._table.lost_file(way.to)
            if lost is not None:
                way = f"a file of commit {way.to.number} is gone, as after a VACUUM: {lost}"
        if not isinstance(way, str):
            return way
        return (
            f"the job goes back to an older checkpoint, and its table cannot be set back: {way}. Rows of later epochs "
            "would stay in it. Nothing was changed. Give this output a new table and the job a new "
            "execution.checkpointing.dir (it then starts from the beginning of its sources, or goes on from a "
            f"savepoint); or set the table back by hand, if you know how. checkpoint={after}, {self._where}"
        )

    def _look(self) -> int:
        """Return the newest epoch in the table."""
        newest = self._newest_mark()
        self._seen = NO_EPOCH if newest is None else newest.epoch
        return self._seen

    def _newest_mark(self) -> Mark | None:
        return newest_mark(self._commits())

    def _commits(self) -> Iterator[Commit]:
        with self._outside("look at"), suppress(AnalysisException):  # the table does not exist yet
            yield from self._table.commits(self._output)

    def _mark(self, kind: MarkKind, epoch: int, past: int, content: str = NOTHING) -> Mark:
        return Mark(*self._output, kind, epoch, past, "" if self._context.replaces else self.owner(), content)

    @property
    def _output(self) -> tuple[str, str]:
        return self._context.job, self._context.name

    @property
    def _ready(self) -> _Prepared:
        assert self._prepared is not None, "prepared before it is published to"
        return self._prepared

    @property
    def _table(self) -> LakeTable:
        if self._opened is None:
            session = _own_session(self._context.session)
            kind = DeltaTable if self._spec.format == "delta" else IcebergTable
            self._opened = kind(session, self._spec.path, self._spec.table)
        return self._opened

    @property
    def _where(self) -> str:
        return f"table={self._spec.place}"

    def _not_there(self, cause: str) -> InvalidJobError:
        return InvalidJobError(
            "Spark cannot open the table of an output. If the job goes on from a checkpoint, put the old table back; "
            f"and see that Spark has the jars and the catalog for it. {self._where}, cause={cause}"
        )

    @contextmanager
    def _outside(self, action: str, *, then: str = _PUBLISHED_LATER) -> Iterator[None]:
        """Convert Spark's errors about the table to our kinds of error."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            cause = hidden(spark_text(error))[:_CAUSE_LENGTH_MAX]
            found = output_problem(cause, self._where)
            if found is None and isinstance(error, AnalysisException):
                found = self._not_there(cause)
            msg = f"Spark could not {action} the table of an output. {then} {self._where}, cause={cause}"
            raise found or RetryableError(msg) from error


def _repeated(write: Callable[[], None]) -> None:
    """Write to the table. If a commit of somebody else comes in between, which makes that fail, repeat it."""
    for _ in range(_REPEATS):
        try:
            return write()
        except (PySparkException, Py4JError) as error:
            if not is_conflict(spark_text(error)):
                raise
    return write()


def _content_of(mark: Mark | None) -> str:
    return NOTHING if mark is None else mark.content


def _own_session(session: SparkSession) -> SparkSession:
    """Return a session for commits, whose settings do not affect the rest of the job."""
    own = session.newSession()
    for key, value in dict(session.conf.getAll).items():
        if key.startswith("spark.sql.catalog."):
            own.conf.set(key, value)
    # many commits have few rows, and each should write few files
    own.conf.set("spark.sql.adaptive.enabled", "true")
    return own
