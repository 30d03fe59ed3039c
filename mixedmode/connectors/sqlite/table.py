# ruff: noqa: S608 - only names are inserted into statements, each of them quoted
"""A table in a SQLite file, through Python's own module: one transaction, rows by `executemany` from whole columns.

The file is in WAL mode, so readers continue while an epoch is written, and see the whole epoch at once. A commit is
synced to the disk before it returns, because staged files are deleted after it.

Every transaction has its own connection. The database is a single file, besides `-wal` and `-shm`, when no process has
it open.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.sqlite.types import created_as, holds, values_of
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import EPOCH_COLUMN
from mixedmode.sinks.tables.database import (
    CHANGED,
    DELETE,
    OP_COLUMN,
    Database,
    LostConnectionError,
    RefusedError,
    Shape,
    Transaction,
)
from mixedmode.sinks.tables.history import HISTORY_COLUMNS, HistoryTable, history_name
from mixedmode.sinks.tables.history import quoted as _quoted
from mixedmode.sinks.tables.ledger import ENTRY_COLUMNS, LEDGER, Entry, entry_of, row_of
from mixedmode.time.window_range import ReplacedRows

__all__ = ["SqliteTable"]

_LOCK_SECONDS = 10.0  # how long to wait for another writer
_CACHE_KIB = 65_536
_LEDGER_DDL = (
    f'CREATE TABLE "{LEDGER}" (table_name TEXT PRIMARY KEY NOT NULL, job TEXT NOT NULL, output TEXT NOT NULL, '
    "run TEXT NOT NULL, owner TEXT NOT NULL, generation INTEGER NOT NULL, key_columns TEXT NOT NULL, "
    "first_epoch INTEGER, last_epoch INTEGER, content TEXT NOT NULL)"
)
_THIS_TABLE = "table_name = ? COLLATE NOCASE"  # to SQLite, `Totals` and `totals` are one table
_KEYS = "temp._mixedmode_keys"
#: codes of failures that may not recur in a retry, now or after a repair
_OUTSIDE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
}


class SqliteTable(Database):
    """One table of SQLite."""

    ledger_ddl = _LEDGER_DDL

    def __init__(self, path: str, table: str, place: str) -> None:
        """`place` is for messages."""
        self.place = place
        self._path = Path(path)
        self._table = table

    @override
    def is_there(self) -> bool:
        return self._path.exists()

    @contextmanager
    @override
    def transaction(self, *, creates: bool = False) -> Iterator["SqliteTransaction"]:
        if not creates and not self._path.exists():
            msg = (
                "there is no such database, and this output has create: false, or goes on with one. Create it first, "
                f"or name the one that there was. table={self.place}"
            )
            raise InvalidJobError(msg)
        with self._explained(creates=creates):
            if creates:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            # autocommit, so that this module begins no transaction of its own
            connection = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, isolation_level=None)
            with closing(connection):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                connection.execute("PRAGMA temp_store = MEMORY")  # the keys of one batch
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield SqliteTransaction(connection, self._table)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def _explained(self, *, creates: bool) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise RefusedError(str(error)) from error  # at the commit
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR)
            if code & 0xFF in _OUTSIDE:
                raise LostConnectionError(str(error)) from error
            if code == sqlite3.SQLITE_ERROR and not creates:  # a statement that was possible before
                raise InvalidJobError(CHANGED.format(cause=error, place=self.place)) from error
            msg = (
                "SQLite refuses what the job has to do there. Check that the file is a database that can be written "
                f"to, and the name of the table. cause={error}, table={self.place}"
            )
            raise InvalidJobError(msg) from error


class SqliteTransaction(Transaction):
    """A transaction of SQLite."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection = connection
        self._table = table
        self._shape = Shape((), ())
        self._saves: Epoch | None = None

    @property
    @override
    def history(self) -> HistoryTable:
        return HistoryTable(self._connection.execute, _quoted(self._table), _quoted(history_name(self._table)))

    @override
    def history_names(self) -> Sequence[str] | None:
        rows = self._connection.execute(f"PRAGMA table_info({_quoted(history_name(self._table))})").fetchall()
        return [row[1] for row in rows if row[1] not in HISTORY_COLUMNS] if rows else None

    @override
    def history_ddl(self, shape: Shape) -> Sequence[str]:
        """Return statements whose columns have no type: such a column holds every value as the table has it."""
        number, epoch, kind, content = HISTORY_COLUMNS
        own = f"{number} INTEGER PRIMARY KEY, {epoch} INTEGER NOT NULL, {kind} TEXT NOT NULL, {content} TEXT"
        columns = "".join(f", {_quoted(column)}" for column in shape.saved_names)
        name, index = self.history.name, _quoted(f"{history_name(self._table)}_epoch")
        return (
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} ({own}{columns})",
            f"CREATE INDEX {index} ON {name} ({epoch})",
        )

    @override
    def execute(self, statement: str) -> object:
        return self._connection.execute(statement)

    @override
    def has_table(self) -> bool:
        return bool(self._connection.execute(f"PRAGMA table_info({_quoted(self._table)})").fetchall())

    @override
    def differences(self, shape: Shape) -> Sequence[str] | None:
        columns = self._connection.execute(f"PRAGMA table_xinfo({_quoted(self._table)})").fetchall()
        if not columns:
            for field in shape.fields:
                created_as(field)
            return None
        # names of columns differ in more than case; row[6] says that a column is computed
        actual = {row[1].lower(): row for row in columns}
        found = []
        for field in shape.fields:
            wanted, row = created_as(field), actual.pop(field.name.lower(), None)
            if row is None:
                found.append(f"column {field.name} is missing (ADD COLUMN {_quoted(field.name)} {wanted})")
            elif row[6]:
                found.append(f"column {field.name} is computed by the database, and the job writes it")
            elif not holds(row[2], field):
                found.append(f"column {field.name} is {row[2] or 'without a type'} and has to be {wanted}")
        found += [
            f"column {row[1]}, which the job does not write, is NOT NULL without a default"
            for row in actual.values()
            if row[3] and row[4] is None and not row[6]
        ]
        if shape.key_columns and not self._has_unique_key(columns, shape.key_columns):
            listed = ", ".join(map(_quoted, shape.key_columns))
            found.append(
                "no primary key or unique index, with the collation BINARY, is on exactly the key columns "
                f"(CREATE UNIQUE INDEX: {listed})"
            )
        return found

    def _has_unique_key(self, columns: Sequence[Any], key_columns: Sequence[str]) -> bool:
        """Return whether a unique key on these columns exists that also distinguishes `a` and `A`, or `a` and `a `."""
        wanted, is_rowid = {name.lower() for name in key_columns}, True
        for _, index, is_unique, origin, is_partial in self._connection.execute(
            f"PRAGMA index_list({_quoted(self._table)})"
        ).fetchall():
            is_rowid = is_rowid and origin != "pk"
            parts = self._connection.execute(f"PRAGMA index_xinfo({_quoted(index)})").fetchall()
            keys = [(name, collation) for _, _, name, _, collation, is_key in parts if is_key]
            is_exact = all(name is not None and collation.upper() == "BINARY" for name, collation in keys)
            if is_unique and not is_partial and is_exact and {name.lower() for name, _ in keys} == wanted:
                return True
        return is_rowid and {row[1].lower() for row in columns if row[5]} == wanted

    @override
    def create(self, shape: Shape) -> None:
        """Create the table; with a key, SQLite keeps its rows in the order of the key."""
        keys = shape.key_columns
        parts = [
            f"{_quoted(field.name)} {created_as(field)}{' NOT NULL' if field.name in keys else ''}"
            for field in shape.fields
        ]
        tail = ""
        if keys:
            parts.append(f"PRIMARY KEY ({', '.join(map(_quoted, keys))})")
            tail = " WITHOUT ROWID"
        self._connection.execute(f"CREATE TABLE {_quoted(self._table)} ({', '.join(parts)}){tail}")

    @override
    def has_ledger(self) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", [LEDGER])
        return found.fetchone() is not None

    @override
    def create_ledger(self) -> None:
        self._connection.execute(_LEDGER_DDL)

    @override
    def entry(self) -> Entry | None:
        """Read the entry without a lock on the row: SQLite locks the file as a whole."""
        statement = f'SELECT {", ".join(ENTRY_COLUMNS)} FROM "{LEDGER}" WHERE {_THIS_TABLE}'
        row = self._connection.execute(statement, [self._table]).fetchone()
        return None if row is None else entry_of(row, self._table)

    @override
    def put(self, entry: Entry) -> None:
        statement = (
            f'INSERT INTO "{LEDGER}" (table_name, {", ".join(ENTRY_COLUMNS)}) VALUES (?{", ?" * len(ENTRY_COLUMNS)})'
        )
        self._connection.execute(f'DELETE FROM "{LEDGER}" WHERE {_THIS_TABLE}', [self._table])
        self._connection.execute(statement, [self._table, *row_of(entry)])

    @override
    def has_rows(self) -> bool:
        return self._connection.execute(f"SELECT 1 FROM {_quoted(self._table)} LIMIT 1").fetchone() is not None

    @override
    def clear(self) -> int:
        return self._connection.execute(f"DELETE FROM {_quoted(self._table)}").rowcount

    @override
    def delete_after(self, epoch: Epoch) -> int:
        statement = f"DELETE FROM {_quoted(self._table)} WHERE {_quoted(EPOCH_COLUMN)} > ?"
        return self._connection.execute(statement, [epoch]).rowcount

    @override
    def delete_windows(self, replaced: ReplacedRows) -> None:
        """Compare the texts of the instants, which have one length, so that their order is that of the instants."""
        least, greatest = replaced.least, replaced.greatest
        bounds = values_of(pa.chunked_array([pa.array([least.scalar, greatest.scalar])]))
        condition = f"{_quoted(least.column)} >= ? AND {_quoted(greatest.column)} <= ?"
        self._connection.execute(f"DELETE FROM {_quoted(self._table)} WHERE {condition}", bounds)

    @override
    def begin(self, shape: Shape, *, saves: Epoch | None) -> None:
        self._shape, self._saves = shape, saves

    @override
    def apply(self, rows: pa.Table) -> None:
        upserts, deletes = rows, rows.slice(0, 0)
        if self._shape.key_columns:
            is_delete = pc.equal(rows.column(OP_COLUMN), DELETE)
            upserts, deletes = rows.filter(pc.invert(is_delete)), rows.filter(is_delete)
        self._connection.execute("SAVEPOINT batch")
        try:
            if self._saves is not None and self._shape.key_columns:
                self._save(rows, self._saves)
            self._execute(self._delete_statement(), deletes, self._shape.key_columns)
            self._execute(self._insert_statement(), upserts, self._shape.names)
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            self._connection.execute("ROLLBACK TO batch")
            raise RefusedError(str(error)) from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("RELEASE batch")

    def _execute(self, statement: str, rows: pa.Table, names: Sequence[str]) -> None:
        if rows.num_rows:
            columns = [values_of(rows.column(name)) for name in names]
            self._connection.executemany(statement, zip(*columns, strict=True))

    def _save(self, rows: pa.Table, epoch: Epoch) -> None:
        """Save the rows that the table has for these keys, with one statement over a temporary table of the keys.

        A statement for each key takes several times as long (bench/micro/test_tables.py).
        """
        keys = self._shape.key_columns
        listed = ", ".join(map(_quoted, keys))
        self._connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {_KEYS} ({listed})")
        self._connection.execute(f"DELETE FROM {_KEYS}")
        self._execute(f"INSERT INTO {_KEYS} VALUES ({', '.join('?' * len(keys))})", rows, keys)
        self._connection.execute(self.history.save(epoch, keys, self._shape.names, _KEYS))

    def _insert_statement(self) -> str:
        names, keys = self._shape.names, self._shape.key_columns
        listed, marks = ", ".join(map(_quoted, names)), ", ".join("?" * len(names))
        statement = f"INSERT INTO {_quoted(self._table)} ({listed}) VALUES ({marks})"
        if not keys:
            return statement
        updates = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in names if name not in keys)
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        return f"{statement} ON CONFLICT ({', '.join(map(_quoted, keys))}) DO {action}"

    def _delete_statement(self) -> str:
        same = " AND ".join(f"{_quoted(name)} = ?" for name in self._shape.key_columns)
        return f"DELETE FROM {_quoted(self._table)} WHERE {same}"
