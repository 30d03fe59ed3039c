"""Opens tables in PostgreSQL databases as sinks."""

from mixedmode.connectors.postgres.spec import PostgresSinkSpec
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables.database import Database
from mixedmode.sinks.tables.table_sink import TableSink


def open_postgres_sink(sink: PostgresSinkSpec, context: SinkContext) -> TableSink:
    """Return the sink. Raises InvalidJobError if the library for PostgreSQL is not installed."""
    return TableSink(postgres_table(sink), context, create=sink.create)


def postgres_table(sink: PostgresSinkSpec) -> Database:
    """Return the table of an output. Raises InvalidJobError if the library for PostgreSQL is not installed."""
    try:
        from mixedmode.connectors.postgres.table import PostgresTable  # noqa: PLC0415 - only a job that writes to it needs it
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        msg = (
            "a job that writes to PostgreSQL needs the library psycopg, which is not installed. Install it: "
            f"{install_command('postgres')}. sink={sink.place}"
        )
        raise InvalidJobError(msg) from error
    return PostgresTable(sink.url, sink.table_schema, sink.table, sink.place)
