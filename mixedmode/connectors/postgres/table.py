"""A PostgreSQL table through psycopg, by COPY.

Rows go as CSV to a temporary table, and from there to the table with one INSERT ... ON CONFLICT DO UPDATE and one
DELETE. If the table was empty, as in a backlog, rows are copied into it directly. If a key then occurs twice, the
remaining rows go through the temporary table.

Every transaction has its own connection, so no connection is open, or was closed by a firewall, between two epochs.
Values are literals, because psycopg would take a `%` in a name for a placeholder in a statement with parameters.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import errors, sql
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.postgres.catalog import check_columns, columns_of, differences, has_unique_key, types_of
from mixedmode.connectors.postgres.connection import Login, connected
from mixedmode.connectors.postgres.types import created_as, csv_bytes
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import hidden
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
from mixedmode.sinks.tables.history import HISTORY_COLUMNS, HistoryTable, history_name, quoted
from mixedmode.sinks.tables.ledger import ENTRY_COLUMNS, LEDGER, Entry, entry_of, row_of
from mixedmode.time.window_range import ReplacedRows

__all__ = ["PostgresTable"]

_LOCK_TIMEOUT = "30s"  # a suspended driver may hold the lock on the ledger's row
_ROWS_SENT = 4_096
_ROWS, _KEYS = "_mixedmode_rows", "_mixedmode_keys"
_LISTED = ", ".join(ENTRY_COLUMNS)
_SELECT_ENTRY = f"SELECT {_LISTED} FROM {{}} WHERE table_name = {{}} FOR UPDATE"  # noqa: S608
_PUT_ENTRY = (
    f"INSERT INTO {{}} AS e (table_name, {_LISTED}) VALUES ({{}}) "  # noqa: S608
    f"ON CONFLICT (table_name) DO UPDATE SET ({_LISTED}) = ({', '.join(f'EXCLUDED.{n}' for n in ENTRY_COLUMNS)})"
)
#: what the server says of a table that has lost its columns, its key or itself
_CHANGES = (errors.UndefinedTable, errors.UndefinedColumn, errors.DatatypeMismatch, errors.InvalidColumnReference)
_LEDGER_DDL = (
    "CREATE TABLE {} (table_name text PRIMARY KEY, job text NOT NULL, output text NOT NULL, run text NOT NULL, "
    "owner text NOT NULL, generation bigint NOT NULL, key_columns text NOT NULL, first_epoch bigint, "
    "last_epoch bigint, content text NOT NULL)"
)


class PostgresTable(Database):
    """One table of PostgreSQL. `url` may hold `${env:NAME}`; `place` is for messages."""

    def __init__(self, url: str, schema: str, table: str, place: str) -> None:
        self.place = place
        self.ledger_ddl = _LEDGER_DDL.format(f'"{schema}".{LEDGER}')
        self._url = url
        self._schema = schema
        self._table = table

    @contextmanager
    @override
    def transaction(self, *, creates: bool = False) -> Iterator["PostgresTransaction"]:
        login = Login(self._url, where=f"sink {self.place}", place=self.place)
        with self._explained(login), connected(login) as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            if creates:  # without the lock, two concurrent starts would both find no table, and one would fail
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"{LEDGER} {self._schema}"])
            yield PostgresTransaction(connection, self._schema, self._table)

    @override
    def is_there(self) -> bool:
        return True

    @contextmanager
    def _explained(self, login: Login) -> Iterator[None]:
        """Convert psycopg's errors to our kinds of error."""
        try:
            yield
        except (psycopg.IntegrityError, psycopg.DataError, errors.RaiseException) as error:
            raise _refused(error) from error  # at the commit
        # a server that has just become a standby, or is about to become the primary, only reads for a moment
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
            raise LostConnectionError(login.told(error)) from error
        except _CHANGES as error:
            cause = hidden(error.diag.message_primary or login.told(error))
            raise InvalidJobError(CHANGED.format(cause=cause, place=self.place)) from error
        except psycopg.Error as error:
            msg = (
                "the database refuses what the job has to do there. Give the user of the job what it lacks, or change "
                f"the output's settings. cause={login.told(error)}, table={self.place}"
            )
            raise InvalidJobError(msg) from error


class PostgresTransaction(Transaction):
    """A transaction of PostgreSQL."""

    def __init__(self, connection: psycopg.Connection, schema: str, table: str) -> None:
        self._connection = connection
        self._schema, self._name = schema, table
        self._target = sql.Identifier(schema, table)
        self._ledger = sql.Identifier(schema, LEDGER)
        self._shape = Shape((), ())
        self._is_direct = False  # True: rows go directly into the table, which was empty
        self._saves: Epoch | None = None

    @property
    @override
    def history(self) -> HistoryTable:
        table, history = quoted(self._name), quoted(history_name(self._name))
        schema = quoted(self._schema)
        return HistoryTable(self.execute, f"{schema}.{table}", f"{schema}.{history}")

    @override
    def history_names(self) -> Sequence[str] | None:
        history = types_of(self._connection, self._schema, history_name(self._name))
        columns = {name: kind for name, kind in history.items() if name not in HISTORY_COLUMNS}
        of_table = types_of(self._connection, self._schema, self._name) if columns else {}
        return list(columns) if history and columns.items() <= of_table.items() else None

    @override
    def history_ddl(self, shape: Shape) -> Sequence[str]:
        """Return the statements with the types of the table's columns, but of any length and precision."""
        number, epoch, kind, content = HISTORY_COLUMNS
        types = types_of(self._connection, self._schema, self._name)
        columns = "".join(f", {quoted(name)} {types[name]}" for name in shape.saved_names)
        own = f"{epoch} bigint NOT NULL, {kind} text NOT NULL, {content} text"
        name = self.history.name
        return (
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} ({number} bigint GENERATED ALWAYS AS IDENTITY, {own}{columns})",
            f"CREATE INDEX ON {name} ({epoch})",
        )

    @override
    def execute(self, statement: str) -> "psycopg.Cursor[tuple[Any, ...]]":
        return self._connection.execute(statement.encode())

    @override
    def has_table(self) -> bool:
        return columns_of(self._connection, self._schema, self._name) is not None

    @override
    def differences(self, shape: Shape) -> Sequence[str] | None:
        check_columns(shape.names)
        actual = columns_of(self._connection, self._schema, self._name)
        if actual is None:
            for field in shape.fields:
                created_as(field)
            return None
        has_key = has_unique_key(self._connection, self._schema, self._name, shape.key_columns)
        return differences(actual, shape, has_key=has_key)

    @override
    def create(self, shape: Shape) -> None:
        parts = [
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(created_as(field))) for field in shape.fields
        ]
        if shape.key_columns:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(_listed(shape.key_columns)))
        self._connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._target, sql.SQL(", ").join(parts)))

    @override
    def has_ledger(self) -> bool:
        return columns_of(self._connection, self._schema, LEDGER) is not None

    @override
    def create_ledger(self) -> None:
        found = self._connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]).fetchone()
        if found is None:
            self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
        self._connection.execute(sql.SQL(_LEDGER_DDL).format(self._ledger))

    @override
    def entry(self) -> Entry | None:
        statement = sql.SQL(_SELECT_ENTRY).format(self._ledger, sql.Literal(self._name))
        row = self._connection.execute(statement).fetchone()
        return None if row is None else entry_of(row, self._name)

    @override
    def put(self, entry: Entry) -> None:
        values = sql.SQL(", ").join(map(sql.Literal, (self._name, *row_of(entry))))
        self._connection.execute(sql.SQL(_PUT_ENTRY).format(self._ledger, values))

    @override
    def has_rows(self) -> bool:
        found = self._connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self._target)).fetchone()
        return found is not None

    @override
    def clear(self) -> int:
        """Delete the rows without TRUNCATE: readers go on, and see the old rows until the commit."""
        return self._connection.execute(sql.SQL("DELETE FROM {}").format(self._target)).rowcount

    @override
    def delete_after(self, epoch: Epoch) -> int:
        column = sql.Identifier(EPOCH_COLUMN)
        statement = sql.SQL("DELETE FROM {} WHERE {} > {}").format(self._target, column, sql.Literal(int(epoch)))
        return self._connection.execute(statement).rowcount

    @override
    def delete_windows(self, replaced: ReplacedRows) -> None:
        bounds = [(sql.Identifier(one.column), sql.Literal(one.instant)) for one in (replaced.least, replaced.greatest)]
        statement = sql.SQL("DELETE FROM {} WHERE {} >= {} AND {} <= {}")
        self._connection.execute(statement.format(self._target, *chain.from_iterable(bounds)))

    @override
    def begin(self, shape: Shape, *, saves: Epoch | None) -> None:
        self._shape, self._saves = shape, saves
        self._is_direct = not shape.key_columns or (saves is None and not self.has_rows())
        if shape.key_columns:
            for name, columns in ((_ROWS, shape.names), (_KEYS, shape.key_columns)):
                statement = "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
                self._connection.execute(sql.SQL(statement).format(_temporary(name), _listed(columns), self._target))

    @override
    def apply(self, rows: pa.Table) -> None:
        keys = self._shape.key_columns
        if not keys:
            self._in_savepoint(rows, rows.slice(0, 0), is_direct=True)
            return
        is_delete = pc.equal(rows.column(OP_COLUMN), DELETE)
        upserts = rows.filter(pc.invert(is_delete)).select(self._shape.names)
        deletes = rows.filter(is_delete).select(list(keys))
        try:
            self._in_savepoint(upserts, deletes, is_direct=self._is_direct)
        except RefusedError as error:
            if not self._is_direct or not isinstance(error.__cause__, errors.UniqueViolation):
                raise
            self._is_direct = False
            self._in_savepoint(upserts, deletes, is_direct=False)

    def _in_savepoint(self, upserts: pa.Table, deletes: pa.Table, *, is_direct: bool) -> None:
        try:
            with self._connection.transaction():
                if deletes.num_rows:
                    self._delete(deletes)
                if upserts.num_rows and is_direct:
                    self._copy(self._target, upserts)
                elif upserts.num_rows:
                    self._upsert(upserts)
        except (psycopg.IntegrityError, psycopg.DataError, errors.RaiseException) as error:
            raise _refused(error) from error
        except (errors.CardinalityViolation, errors.ProgramLimitExceeded) as error:
            raise _refused(error) from error

    def _upsert(self, rows: pa.Table) -> None:
        names, keys = self._shape.names, self._shape.key_columns
        self._copy(_temporary(_ROWS), rows)
        self._save(_ROWS)
        others = [name for name in names if name not in keys]
        updates = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if others else sql.SQL("NOTHING")
        statement = sql.SQL("INSERT INTO {} ({columns}) SELECT {columns} FROM {} ON CONFLICT ({}) DO {}")
        self._connection.execute(
            statement.format(self._target, _temporary(_ROWS), _listed(keys), action, columns=_listed(names))
        )
        self._connection.execute(sql.SQL("TRUNCATE {}").format(_temporary(_ROWS)))

    def _delete(self, keys: pa.Table) -> None:
        self._copy(_temporary(_KEYS), keys)
        self._save(_KEYS)
        same = [sql.SQL("t.{0} = k.{0}").format(sql.Identifier(name)) for name in keys.column_names]
        statement = sql.SQL("DELETE FROM {} AS t USING {} AS k WHERE {}")
        self._connection.execute(statement.format(self._target, _temporary(_KEYS), sql.SQL(" AND ").join(same)))
        self._connection.execute(sql.SQL("TRUNCATE {}").format(_temporary(_KEYS)))

    def _save(self, temporary: str) -> None:
        if self._saves is not None:
            source = f"pg_temp.{quoted(temporary)}"
            self.execute(self.history.save(self._saves, self._shape.key_columns, self._shape.names, source))

    def _copy(self, into: sql.Composable, rows: pa.Table) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv, ENCODING 'UTF8')")
        with (
            self._connection.cursor() as cursor,
            cursor.copy(statement.format(into, _listed(rows.column_names))) as copy,
        ):
            for start in range(0, rows.num_rows, _ROWS_SENT):  # the server reads one chunk while we write the next
                copy.write(csv_bytes(rows.slice(start, _ROWS_SENT)))


def _temporary(name: str) -> sql.Composable:
    return sql.Identifier("pg_temp", name)


def _listed(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _refused(error: psycopg.Error) -> RefusedError:
    diag = error.diag
    why = hidden(" ".join(f"{diag.message_primary or error}".split()))
    if diag.message_detail and not diag.message_detail.startswith("Failing row"):  # our message shows the row itself
        why += f" ({hidden(diag.message_detail.rstrip('.'))})"
    return RefusedError(why, constraint=diag.constraint_name, column=diag.column_name)
