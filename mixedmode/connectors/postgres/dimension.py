"""A PostgreSQL table as a dimension: the rows that it has when an epoch begins, read once by the driver.

PostgreSQL cannot read a table as it was. So the driver reads the whole table in one statement, which sees one state of
it, and all parts of the epoch read this copy. Its name as a version is the number of its rows and a checksum of their
text; an epoch whose table has not changed keeps the copy of the epoch before.

Rows come as CSV from COPY, and Arrow parses it. Times come as numbers, and floats with all digits, so that
no setting of the server matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.config.spelling import did_you_mean
from mixedmode.connectors.postgres.catalog import ActualColumn, columns_of
from mixedmode.connectors.postgres.connection import Login, connected
from mixedmode.connectors.postgres.reach import not_reached
from mixedmode.connectors.postgres.spec import PostgresTableSpec
from mixedmode.connectors.postgres.types import TEXTS
from mixedmode.errors import InvalidJobError
from mixedmode.sources.source import Admission, OpenSource
from mixedmode.sources.versions import HasVersions, TableVersion, columns_changed
from mixedmode.spark.frames import spark_schema

__all__ = ["PostgresDimension", "ReadColumn", "open_postgres_dimension", "read_as", "rows_of"]

_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_DIGITS_MAX = 38  # of Spark's decimals
_BLOCK_BYTES_MAX = 2**30  # no value in PostgreSQL is larger
_INT32, _INT64 = pa.int32(), pa.int64()
#: {type in the catalogue: (type in SQL steps, type in the CSV, expression that makes it)}
_KINDS: dict[str, tuple[pa.DataType, pa.DataType, str]] = {
    "bool": (pa.bool_(), pa.bool_(), "{}"),
    "int2": (pa.int16(), pa.int16(), "{}"),
    "int4": (_INT32, _INT32, "{}"),
    "int8": (_INT64, _INT64, "{}"),
    "float4": (pa.float32(), pa.float32(), "{}"),
    "float8": (pa.float64(), pa.float64(), "{}"),
    "date": (pa.date32(), _INT32, "{} - DATE '1970-01-01'"),
    "timestamptz": (pa.timestamp("us", "UTC"), _INT64, "(extract(epoch FROM {}) * 1000000)::bigint"),
    "timestamp": (pa.timestamp("us"), _INT64, "(extract(epoch FROM {}) * 1000000)::bigint"),
}


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column that is read: its type in SQL steps, its type in the CSV, and the SQL expression that makes the CSV."""

    name: str
    type: pa.DataType
    sent: pa.DataType
    expression: str


def read_as(column: ActualColumn) -> ReadColumn | None:
    """Return how a column is read; None for a type that has no equal in Spark."""
    actual = column.type
    if actual.is_enum or actual.name in TEXTS:
        return ReadColumn(column.name, pa.string(), pa.string(), "{}::text")
    if actual.name == "numeric" and actual.precision is not None and actual.scale is not None:
        if actual.precision > _DIGITS_MAX or not 0 <= actual.scale <= actual.precision:
            return None
        decimal = pa.decimal128(actual.precision, actual.scale)
        return ReadColumn(column.name, decimal, decimal, "{}")
    kind = _KINDS.get(actual.name)
    return None if kind is None else ReadColumn(column.name, *kind)


def rows_of(text: bytes, columns: Sequence[ReadColumn]) -> pa.Table:
    """Return the rows in the CSV of COPY, with a header. NULL is an empty field without quotes."""
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        # Arrow refuses a row that is larger than two blocks
        read_options=pyarrow.csv.ReadOptions(block_size=min(len(text) + 1, _BLOCK_BYTES_MAX)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={column.name: column.sent for column in columns},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    found = [table.column(column.name).cast(column.type) for column in columns]
    return pa.table(found, names=[column.name for column in columns])


def open_postgres_dimension(session: SparkSession, table: PostgresTableSpec, *, where: str) -> "PostgresDimension":
    """Return the table. Raise InvalidJobError, beginning with `where`, if it cannot be read."""
    del session  # each epoch has its own
    return PostgresDimension(table, where=where)


class PostgresDimension(OpenSource, HasVersions):
    """A table of PostgreSQL. It can be read as a dimension only."""

    def __init__(self, table: PostgresTableSpec, *, where: str) -> None:
        """Look the columns up. Raise InvalidJobError if the login, the table or a column is wrong.

        Raise RetryableError if the server does not answer.
        """
        self._spec = table
        self._where = where
        self._login = Login(table.url, where=where, place=table.place)
        try:
            with connected(self._login) as connection:
                self._columns = self._wanted(connection)
        except psycopg.Error as error:
            self._fail(error)
        self.schema = spark_schema([pa.field(column.name, column.type) for column in self._columns])

    @override
    def batch(self) -> DataFrame:
        raise AssertionError(self._spec.place)  # settings allow it as a dimension only

    @override
    def stream(self, admission: Admission) -> DataFrame:
        raise AssertionError(self._spec.place, admission)

    @override
    def newest(self, session: SparkSession, before: TableVersion | None) -> TableVersion:
        """Return the rows that the table has now.

        Raise InvalidJobError if a column is gone or has another type, RetryableError if the server does not answer.
        """
        name, rows = self.rows()
        if before is not None and before.name == name:
            return before
        return TableVersion(name, session.createDataFrame(rows, self.schema))

    def rows(self) -> tuple[str, pa.Table]:
        """Return the name of the version that the table has now, and its rows. Raise as `newest` does."""
        columns = sql.SQL(", ").join(
            sql.SQL(f"{column.expression} AS {{}}").format(*[sql.Identifier(column.name)] * 2)
            for column in self._columns
        )
        table = sql.Identifier(self._spec.table_schema, self._spec.table)
        copy = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, HEADER)").format(columns, table)
        try:
            with connected(self._login) as connection:
                self._check_columns(connection)
                connection.execute("SET LOCAL extra_float_digits = 1")  # less digits would be other numbers
                with connection.cursor().copy(copy) as parts:
                    text = b"".join(bytes(part) for part in parts)
        except psycopg.Error as error:
            self._fail(error)
        rows = self._parsed(text)
        # PostgreSQL returns rows in any order, so the same rows may have another name; then they are only copied again
        return f"{rows.num_rows} row{'' if rows.num_rows == 1 else 's'}, {checksum_of([text])}", rows

    def _parsed(self, text: bytes) -> pa.Table:
        try:
            return rows_of(text, self._columns)
        except pa.ArrowInvalid as error:
            raise self._not_in_spark(str(error)) from error

    def _not_in_spark(self, cause: str) -> InvalidJobError:
        return InvalidJobError(
            f"{self._where}: the table has a value that has no equal in Spark, such as a number that is NaN or a time "
            "that is infinite. Leave such rows out in a view, and make that the dimension. "
            f"cause={cause}, table={self._spec.place}"
        )

    def _check_columns(self, connection: psycopg.Connection) -> None:
        found = {column.name: read_as(column) for column in self._actual(connection)}
        if any(found.get(column.name) != column for column in self._columns):
            raise columns_changed(self._where, self._spec.place)

    def _wanted(self, connection: psycopg.Connection) -> list[ReadColumn]:
        """Return the columns that are read. Raise InvalidJobError if the table or one of them is not as it must be."""
        spec = self._spec
        by_name = {column.name: column for column in self._actual(connection)}
        missing = next((name for name in spec.columns if name not in by_name), None)
        if missing is not None:
            msg = (
                f"{self._where}.columns: the table has no such column.{did_you_mean(missing, by_name)} "
                f"Columns here: {', '.join(by_name)}. found={missing}, table={spec.place}"
            )
            raise InvalidJobError(msg)
        chosen = [by_name[name] for name in spec.columns or by_name]
        names = [column.name.lower() for column in chosen]
        twice = [column.name for column in chosen if names.count(column.name.lower()) > 1]
        if twice:
            msg = (
                f"{self._where}: columns have one name in SQL, where case does not count. Name one of them, once, in "
                f"`columns`; or rename them in a view, and make that the dimension. columns={', '.join(twice)}, "
                f"table={spec.place}"
            )
            raise InvalidJobError(msg)
        unread = [f"{column.name} {column.type.shown}" for column in chosen if read_as(column) is None]
        if unread:
            msg = (
                f"{self._where}: columns have types that have no equal in Spark. Name the others in `columns`, or cast "
                f"these in a view, and make that the dimension. columns={', '.join(unread)}, table={spec.place}"
            )
            raise InvalidJobError(msg)
        return [found for column in chosen if (found := read_as(column)) is not None]

    def _actual(self, connection: psycopg.Connection) -> Sequence[ActualColumn]:
        """Return the columns that the table has now. Raise InvalidJobError if there is no table."""
        spec = self._spec
        actual = columns_of(connection, spec.table_schema, spec.table)
        if actual is None:
            others = [name for (name,) in connection.execute(_TABLES, [spec.table_schema]).fetchall()]
            msg = (
                f"{self._where}.table: there is no such table, or this login may not see it."
                f"{did_you_mean(spec.table, others)} Correct `table` or `table-schema`. table={spec.place}"
            )
            raise InvalidJobError(msg)
        return actual

    def _fail(self, error: psycopg.Error) -> NoReturn:
        """Raise the error for one of psycopg: the login is refused, the server is away, or it refuses to read."""
        cause = self._login.told(error)
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise not_reached(cause, self._spec.place) from error
        if isinstance(error, psycopg.DataError | psycopg.NotSupportedError):  # the latter of an infinite number
            raise self._not_in_spark(cause) from error
        msg = (
            f"{self._where}: the database refuses to read the table. Let the user of the job select from it, or "
            f"correct the settings. cause={cause}, table={self._spec.place}"
        )
        raise InvalidJobError(msg) from error
