"""Opens tables in PostgreSQL databases as sinks."""

from importlib.util import find_spec

from mixedmode.connectors.postgres.spec import PostgresSinkSpec, PostgresTableSpec
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables.database import Database
from mixedmode.sinks.tables.table_sink import TableSink


def open_postgres_sink(sink: PostgresSinkSpec, context: SinkContext) -> TableSink:
    """Return the sink. Raises InvalidJobError if the library for PostgreSQL is not installed."""
    return TableSink(postgres_table(sink), context, create=sink.create)


def check_library(section: PostgresSinkSpec | PostgresTableSpec) -> None:
    """Raise InvalidJobError if the library for PostgreSQL is not installed."""
    if find_spec("psycopg") is None:
        msg = (
            "a job that uses PostgreSQL needs the library psycopg, which is not installed. Install it: "
            f"{install_command('postgres')}. place={section.place}"
        )
        raise InvalidJobError(msg)


def postgres_table(sink: PostgresSinkSpec) -> Database:
    """Return the table of an output. Raises InvalidJobError if the library for PostgreSQL is not installed."""
    check_library(sink)
    from mixedmode.connectors.postgres.table import PostgresTable  # noqa: PLC0415 - only a job that writes to it needs it

    return PostgresTable(sink.url, sink.table_schema, sink.table, sink.place)
