# ruff: noqa: S608 - all that is put into statements are names, each of them quoted
"""A table of Delta Lake or Iceberg as its history tells of it: who committed what, and what the last epoch was.

The one idea: every commit of a sink carries a mark in the table's own history, written in the same commit as the rows.
So the table itself says which epochs it has, and nothing beside it can disagree.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.checkpoint.types import Epoch
from mixedmode.spark.frames import quoted, spark_schema

#: what a commit did: rows of an epoch; a batch run's rows; going back to `epoch`; closing a past that was left
MarkKind = Literal["epoch", "batch", "back", "closed"]
STAGED_VIEW = "mixedmode_staged"
OP_COLUMN, DELETE = "_op", "delete"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a sink writes into the history with a commit. `past` counts how often the output has gone back."""

    job: str
    output: str
    kind: MarkKind
    epoch: int
    past: int = 0

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps({"mixedmode": asdict(self)})


def parse_mark(text: str | None) -> Mark | None:
    """Inverse of `Mark.to_text`; None for what somebody else has written."""
    try:
        values = json.loads(text or "")["mixedmode"]
        return Mark(values["job"], values["output"], values["kind"], int(values["epoch"]), int(values["past"]))
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table. `number` names it to the format. `changes_rows`: compaction, for one, does not."""

    number: int
    mark: Mark | None
    changes_rows: bool = True


@dataclass(frozen=True, slots=True)
class WayBack:
    """How a table becomes what it was after an epoch. `since`: the commits that are left, newest first.

    to: the commit to go back to; None: all rows are of the epochs that are left.
    """

    newest: Mark
    to: Commit | None
    since: tuple[Commit, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of an output, and those that tell its rows apart."""

    fields: tuple[pa.Field, ...]
    key: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        """As Spark has them."""
        return spark_schema(self.fields)


class LakeTable(Protocol):
    """A table of one format. All that is read is read anew, also what another process has just committed."""

    @property
    def name(self) -> str:
        """As SQL names it."""

    @property
    def session(self) -> SparkSession:
        """The session in which it is read and written."""

    @property
    def refuses_repeats(self) -> bool:
        """Whether the table itself takes an epoch once only; else the sink has to look before it writes."""

    def create(self, schema: StructType, partition_by: Sequence[str]) -> None:
        """Unless it exists."""

    def stored_type(self, column_type: str) -> str:
        """The type that the table has for a column of this type of Spark's; both as Spark DDL."""

    def commits(self, output: tuple[str, str]) -> Iterator[Commit]:
        """From the newest to the oldest that is known, with the marks of (job, output) alone."""

    def knows_its_beginning(self) -> bool:
        """Whether its oldest commits are still known."""

    def write(self, sql: str, mark: Mark) -> None:
        """Run a statement that writes the table, as one commit with the mark. Repeating an epoch changes nothing."""

    def go_back(self, to: Commit, newest: Mark, mark: Mark) -> None:
        """Make it what it was after commit `to`; `newest` is the newest mark, `mark` what is to be the newest."""

    def note(self, newest: Mark, mark: Mark) -> None:
        """A commit without rows, for its mark; the arguments are those of `go_back`."""


def newest_mark(commits: Iterator[Commit]) -> Mark | None:
    """The newest mark that says which epoch is the last one."""
    return next((one.mark for one in commits if one.mark is not None and one.mark.kind != "closed"), None)


def decide_way_back(
    commits: Sequence[Commit], after: Epoch, knows_beginning: Callable[[], bool]
) -> WayBack | str | None:
    """How a table becomes what it was after an epoch; None if it has no later one; why it cannot, as a clause.

    commits: from the newest to the oldest that is known. knows_beginning: LakeTable.knows_its_beginning. Pure.
    """
    newest = newest_mark(iter(commits))
    if newest is None or newest.epoch <= after:
        return None
    number = next((n for n, one in enumerate(commits) if _has_only(one, after)), None)
    if number is not None:
        way = WayBack(newest, commits[number], tuple(commits[:number]))
    elif knows_beginning():  # the job's first epoch is among those to be rolled back
        first = max(n for n, one in enumerate(commits) if one.mark is not None)
        before = commits[first + 1] if first + 1 < len(commits) else None
        way = WayBack(newest, before, tuple(commits[: first + 1]))
    else:
        return "the table's history no longer tells what the table was then"
    others = [commit.number for commit in way.since if commit.mark is None and commit.changes_rows]
    return f"somebody else wrote commit {others[0]} to the table since" if others else way


def _has_only(commit: Commit, epoch: Epoch) -> bool:
    """Whether the table, as a commit left it, had the job's rows up to an epoch and no later ones."""
    return commit.mark is not None and commit.mark.kind in {"epoch", "back"} and commit.mark.epoch <= epoch


def create_sql(table: str, table_format: str, schema: StructType, partition_by: Sequence[str]) -> str:
    """Create a table unless it exists."""
    columns = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema)
    partitions = f" PARTITIONED BY ({', '.join(map(quoted, partition_by))})" if partition_by else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING {table_format}{partitions}"


def merge_sql(table: str, columns: Columns) -> str:
    """Put the staged rows into a table: for each key its row, or none if that deletes the key."""
    names = [field.name for field in columns.fields]
    on = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in columns.key)
    values = [name for name in names if name not in columns.key] or names  # a table of keys alone
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
    """Add the staged rows to a table, or put them in the place of all of its rows."""
    columns = ", ".join(map(quoted, names))
    return f"INSERT {'OVERWRITE' if overwrites else 'INTO'} {table} ({columns}) SELECT {columns} FROM {STAGED_VIEW}"


def last_rows(staged: DataFrame, columns: Columns) -> DataFrame:
    """One row per key: its last. All rows of a key are in one file, in order."""
    names = [*(field.name for field in columns.fields), OP_COLUMN]
    row = f"struct({', '.join(map(quoted, names))})"
    numbered = staged.selectExpr(*map(quoted, names), "_metadata.row_index AS _row")
    return numbered.groupBy(*map(quoted, columns.key)).agg(F.expr(f"max_by({row}, _row) AS _last")).select("_last.*")
