# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""The history of a Delta Lake or Iceberg table: who committed what, and which epoch is the last one.

Every commit of a sink carries a mark in the table's own history, written in the same commit as the rows. So the table
itself says which epochs it has, and no second record can disagree with it.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.checkpoint.contents import NOTHING
from mixedmode.checkpoint.types import Epoch
from mixedmode.config.calls import quoted
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.spark.frames import spark_schema
from mixedmode.time.window_range import BOUND_TYPE, Bound, ReplacedRows

#: what a commit did: wrote an epoch; wrote a batch run; went back to `epoch`; closed an abandoned past; replaced the
#: rows of windows
MarkKind = Literal["epoch", "batch", "back", "closed", "backfill"]
STAGED_VIEW = "mixedmode_staged"
#: the epoch of a table without any
NO_EPOCH = -1
OP_COLUMN, INSERT, DELETE = "_op", "insert", "delete"
#: a column of NULLs in the staged view of `replace_sql`: an equal join, which Spark need not run row by row
NEVER = "_never"


@dataclass(frozen=True, slots=True)
class Mark:
    """The record that a commit of a sink has in the history. `past` counts how often the output has gone back.

    owner: the id of the checkpoint folder (StagedSink.owner); "" in a batch run. content: the digest of all that was
    published to the table up to `epoch` (checkpoint/contents.py).
    """

    job: str
    output: str
    kind: MarkKind
    epoch: int
    past: int = 0
    owner: str = ""
    content: str = NOTHING

    def to_text(self) -> str:
        """Return the mark as JSON."""
        return json.dumps({"mixedmode": asdict(self)})


def parse_mark(text: str | None) -> Mark | None:
    """Inverse of `Mark.to_text`; None for text that another program wrote."""
    try:
        values = json.loads(text or "")["mixedmode"]
        epoch, past = int(values["epoch"]), int(values["past"])
        owner, content = values["owner"], values["content"]
        return Mark(values["job"], values["output"], values["kind"], epoch, past, owner, content)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table. `number`: the format's id of it. `changes_rows`: false for a compaction, for example."""

    number: int
    mark: Mark | None
    changes_rows: bool = True


@dataclass(frozen=True, slots=True)
class WayBack:
    """The rollback of a table to its contents after an epoch. `since`: the commits that are rolled back, newest first.

    to: the commit to go back to; None: all rows are of the epochs that are rolled back.
    """

    newest: Mark
    to: Commit | None
    since: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of an output, and the columns that identify a row."""

    fields: tuple[pa.Field, ...]
    key: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        """The columns as a Spark schema."""
        return spark_schema(self.fields)


class LakeTable(Protocol):
    """A table of one format. Every read is fresh, and sees what another process has just committed."""

    name: str  #: the name of the table in SQL
    session: SparkSession  #: the session that reads and writes the table

    @abstractmethod
    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        """Create the table unless it exists."""

    @abstractmethod
    def stored_type(self, column_type: str) -> str:
        """Return the type that the table uses for a column of this Spark type; both as Spark DDL."""

    @abstractmethod
    def commits(self, output: tuple[str, str]) -> Iterator[Commit]:
        """Yield the commits from the newest to the oldest that is known, with the marks of (job, output) only."""

    @abstractmethod
    def knows_its_beginning(self) -> bool:
        """Return whether the oldest commits of the table are still known."""

    @property
    def target(self) -> str:
        """Return the name in SQL of what a statement for an epoch writes, within `committing`."""
        return self.name

    @abstractmethod
    def committing(self, output: tuple[str, str]) -> AbstractContextManager[None]:
        """Begin the commit of an epoch, before the history is looked at.

        If another start commits an epoch after that, or sets the table back, `write` within the block fails.
        """

    @abstractmethod
    def write(self, sql: str, mark: Mark) -> None:
        """Run a statement that writes the table, as one commit with the mark. A repeat of an epoch changes nothing."""

    @abstractmethod
    def go_back(self, to: Commit, newest: Mark, mark: Mark) -> None:
        """Restore the table as of commit `to`. `newest`: the newest mark so far; `mark`: the mark of the new commit."""

    @abstractmethod
    def lost_file(self, to: Commit) -> str | None:
        """Return a file that the table needs to become as of commit `to`, and that does not exist; None if all do."""

    @abstractmethod
    def note(self, newest: Mark, mark: Mark) -> None:
        """Commit only a mark, without rows; the arguments are those of `go_back`."""


def newest_mark(commits: Iterable[Commit]) -> Mark | None:
    """Return the newest mark that names the last epoch, with the past that is open.

    A past that is closed without a later one has been left for a rollback that did not end, or others have set the
    table back. Nothing more can be written in it, so the next past is open; without any epoch, of no epoch.
    """
    closed: Mark | None = None  # the one of the latest past
    for mark in (one.mark for one in commits if one.mark is not None):
        if mark.kind == "closed" and (closed is None or closed.past < mark.past):
            closed = mark
        elif names_last_epoch(mark):
            return mark if closed is None else replace(mark, past=max(mark.past, closed.past + 1))
    if closed is None:
        return None
    return replace(closed, kind="back", epoch=NO_EPOCH, past=closed.past + 1, content=NOTHING)


def decide_way_back(
    commits: Iterable[Commit], after: Epoch, knows_beginning: Callable[[], bool]
) -> WayBack | str | None:
    """Return how a table returns to its contents after an epoch; None if it has no later epoch; a clause that says why
    it cannot.

    commits: from the newest to the oldest that is known; without a later epoch, they are read up to the one that names
    the last epoch. knows_beginning: LakeTable.knows_its_beginning. Pure.
    """
    unread, recent = iter(commits), list[Commit]()
    for commit in unread:
        recent.append(commit)
        if commit.mark is not None and names_last_epoch(commit.mark):
            break
    newest = newest_mark(recent)
    if newest is None or newest.epoch <= after:
        # windows that were open in the checkpoint: the job would write their rows a second time
        return _backfill_clause(commit for commit in recent if commit.mark is not None and commit.mark.epoch > after)
    every = [*recent, *unread]
    number = next((n for n, one in enumerate(every) if _has_only(one, after)), None)
    if number is not None:
        way = WayBack(newest, every[number], tuple(every[:number]))
    elif knows_beginning():  # the job's first epoch is among those to be rolled back
        first = max(n for n, one in enumerate(every) if one.mark is not None)
        before = every[first + 1] if first + 1 < len(every) else None
        way = WayBack(newest, before, tuple(every[: first + 1]))
    else:
        return "the table's history no longer tells what the table was then"
    others = [commit.number for commit in way.since if commit.mark is None and commit.changes_rows]
    other = f"somebody else wrote commit {others[0]} to the table since" if others else None
    return _backfill_clause(way.since) or other or way


def _backfill_clause(commits: Iterable[Commit]) -> str | None:
    """Return the reason why a table cannot return to what it was before these commits, if one is a backfill."""
    backfills = [commit.number for commit in commits if commit.mark is not None and commit.mark.kind == "backfill"]
    return f"a backfill wrote commit {backfills[0]} to the table since" if backfills else None


def names_last_epoch(mark: Mark) -> bool:
    """Return whether a mark says which epoch of the job is the last one in the table."""
    return mark.kind not in {"closed", "backfill"}


def _has_only(commit: Commit, epoch: Epoch) -> bool:
    """Return whether a commit left the table with the job's rows up to an epoch, and without later rows."""
    return commit.mark is not None and commit.mark.kind in {"epoch", "back"} and commit.mark.epoch <= epoch


def create_sql(table: str, table_format: str, schema: StructType, partition_by: Sequence[str]) -> str:
    """Return the statement that creates a table unless it exists."""
    partitions = f" PARTITIONED BY ({', '.join(map(quoted, partition_by))})" if partition_by else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({schema.toDDL()}) USING {table_format}{partitions}"


def merge_sql(table: str, columns: Columns) -> str:
    """Return the statement that merges the staged rows into a table: it replaces, inserts or deletes the row of each
    key.
    """
    names = [field.name for field in columns.fields]
    on = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in columns.key)
    values = [name for name in names if name not in columns.key] or names  # a table that has only key columns
    update = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in values)
    into = ", ".join(map(quoted, names))
    given = ", ".join(f"s.{quoted(name)}" for name in names)
    return (
        f"MERGE INTO {table} t USING {STAGED_VIEW} s ON {on}"
        f" WHEN MATCHED AND s.{OP_COLUMN} = '{DELETE}' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {update}"
        f" WHEN NOT MATCHED AND s.{OP_COLUMN} <> '{DELETE}' THEN INSERT ({into}) VALUES ({given})"
    )


def insert_sql(table: str, names: Sequence[str], *, overwrites: bool = False) -> str:
    """Return the statement that appends the staged rows to a table, or replaces all of its rows."""
    columns = ", ".join(map(quoted, names))
    return f"INSERT {'OVERWRITE' if overwrites else 'INTO'} {table} ({columns}) SELECT {columns} FROM {STAGED_VIEW}"


def replace_sql(table: str, names: Sequence[str], replaced: ReplacedRows) -> str:
    """Return the statement that replaces the rows of windows by the staged rows, in one commit. No row matches."""
    least, greatest = replaced.least, replaced.greatest
    into, given = ", ".join(map(quoted, names)), ", ".join(f"s.{quoted(name)}" for name in names)
    return (
        f"MERGE INTO {table} t USING {STAGED_VIEW} s ON {_of_table(least)} = s.{NEVER}"
        f" WHEN NOT MATCHED THEN INSERT ({into}) VALUES ({given})"
        f" WHEN NOT MATCHED BY SOURCE AND {_of_table(least)} >= {least.literal}"
        f" AND {_of_table(greatest)} <= {greatest.literal} THEN DELETE"
    )


def _of_table(bound: Bound) -> str:
    return ".".join(["t", *map(quoted, bound.path)])


def replacing_rows(rows: pa.Table, names: Sequence[str], epoch: Epoch) -> pa.Table:
    """Return the staged rows for `replace_sql`.  names: the columns to write, perhaps with `_op` and `_epoch`."""
    count = rows.num_rows
    own = {OP_COLUMN: pa.array([INSERT] * count, pa.string()), EPOCH_COLUMN: pa.array([epoch] * count, pa.int64())}
    for name in own.keys() & set(names):
        rows = rows.append_column(name, own[name])
    return rows.append_column(NEVER, pa.nulls(count, BOUND_TYPE))


def last_rows(staged: DataFrame, columns: Columns) -> DataFrame:
    """Return one row per key: its last row. All rows of a key are in one file, in order."""
    names = [*(field.name for field in columns.fields), OP_COLUMN]
    row = f"struct({', '.join(map(quoted, names))})"
    numbered = staged.selectExpr(*map(quoted, names), "_metadata.row_index AS _row")
    return numbered.groupBy(*map(quoted, columns.key)).agg(F.expr(f"max_by({row}, _row) AS _last")).select("_last.*")
