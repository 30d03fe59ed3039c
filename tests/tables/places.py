"""Tables in PostgreSQL and in SQLite behind one face, so that one suite tests both; and outputs staged as tasks do."""

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from mixedmode.checkpoint.types import Generation, StagedFile
from mixedmode.connectors.postgres.spec import PostgresSinkSpec
from mixedmode.connectors.postgres.table import PostgresTable
from mixedmode.connectors.sqlite.spec import SqliteSinkSpec
from mixedmode.connectors.sqlite.table import SqliteTable
from mixedmode.job import Sink as Sinks
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables.database import Database
from mixedmode.sinks.tables.table_sink import TableSink
from tests.staging import stage

Kind = Literal["postgres", "sqlite"]
Row = tuple[Any, ...]

FIELDS = (pa.field("k", pa.string()), pa.field("n", pa.int64()))


@dataclass
class Place:
    """One database, empty at first. `base` stands for a checkpoint folder; `place` is what messages say."""

    kind: Kind
    folder: Path
    url: str = ""
    _attempts: int = field(default=0)

    @property
    def base(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def path(self) -> Path:
        return self.folder / "run" / "totals.db"

    def spec(self, table: str = "totals", *, create: bool = True) -> PostgresSinkSpec | SqliteSinkSpec:
        if self.kind == "postgres":
            return Sinks.postgres(self.url, table, create=create)
        return Sinks.sqlite(self.path, table, create=create)

    def place(self, table: str = "totals") -> str:
        return self.spec(table).place

    def database(self, table: str = "totals") -> Database:
        place = self.place(table)
        if self.kind == "postgres":
            return PostgresTable(self.url, "public", table, place)
        return SqliteTable(str(self.path), table, place)

    def sink(
        self,
        *,
        table: str = "totals",
        job: str = "job",
        name: str = "",
        generation: int = 1,
        base: Path | None = None,
        create: bool = True,
        replaces: bool = False,
        sleep: Callable[[float], object] | None = None,
        database: Database | None = None,
        retained: int = 10,
    ) -> TableSink:
        context = SinkContext(
            job=job,
            name=name,
            generation=Generation(generation),
            base=str(base or self.base),
            replaces=replaces,
            session=None,  # type: ignore[arg-type]  # no table asks for it
            show=lambda *_: None,
            retained=retained,
        )
        patience = sleep or _no_sleep
        return TableSink(database or self.database(table), context, create=create, sleep=patience)

    def sql(self, statement: str) -> list[Row]:
        """Run by somebody else, in a transaction of its own."""
        if self.kind == "postgres":
            import psycopg

            with psycopg.connect(self.url) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description is not None else []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path)) as file, file:
            return file.execute(statement).fetchall()

    def rows(self, table: str = "totals") -> list[Row]:
        return sorted(self.sql(f'SELECT * FROM "{table}"'), key=str)

    def stage(
        self, sink: TableSink, epoch: int, rows: Sequence[Row], *, fields: Sequence[pa.Field] = FIELDS, subtask: int = 0
    ) -> StagedFile:
        """A file as a task stages it: `rows` with their operation first, or without one in a table without a key."""
        has_key = any(len(row) > len(fields) for row in rows)
        schema = pa.schema([*([pa.field("_op", pa.string())] if has_key else []), *fields])
        columns = [pa.array([row[i] for row in rows], one.type) for i, one in enumerate(schema)]
        return self.stage_table(sink, epoch, pa.table(columns, schema=schema), subtask=subtask)

    def stage_table(self, sink: TableSink, epoch: int, table: pa.Table, *, subtask: int = 0) -> StagedFile:
        self._attempts += 1
        with tempfile.TemporaryDirectory() as folder:
            (file,) = stage(sink.task, Path(folder), f"a{self._attempts}", table, epoch=epoch, subtask=subtask)
        return file

    def staged(self, sink: TableSink) -> list[str]:
        return [path for path, _ in sink.store.list("_staging")]


def up(*pairs: Row) -> list[Row]:
    return [("upsert", *pair) for pair in pairs]


def _no_sleep(seconds: float) -> None:
    msg = f"the test did not expect a repeat, after {seconds} s"
    raise AssertionError(msg)
