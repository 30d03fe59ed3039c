"""Opens the sink of a job file: the only module that knows every kind of sink."""

from mixedmode.config import (
    ConsoleSinkSpec,
    CustomSinkSpec,
    FileSinkSpec,
    KafkaSinkSpec,
    PostgresSinkSpec,
    SinkSpec,
    SqliteSinkSpec,
    TableSinkSpec,
)
from mixedmode.errors import InvalidJobError
from mixedmode.installed import install_command
from mixedmode.sinks.console import ConsoleSink
from mixedmode.sinks.custom import CustomSinkWriter
from mixedmode.sinks.file_sink import FileSink, file_layout
from mixedmode.sinks.sink import Sink, SinkContext
from mixedmode.sinks.tables import SqliteTable, TableSink
from mixedmode.sinks.tables.database import Database


def open_sink(sink: SinkSpec, context: SinkContext) -> Sink:
    """Return the sink of one output. Accesses nothing outside until `prepare` is called."""
    match sink:
        case FileSinkSpec():
            return FileSink(
                context.job,
                sink.path,
                sink.format,
                replaces=context.replaces,
                layout=file_layout(sink),
                marks_epochs=sink.success_marker,
            )
        case ConsoleSinkSpec():
            return ConsoleSink(context.screen, context.show, context.name)
        case CustomSinkSpec():
            return CustomSinkWriter(sink, context)
        case TableSinkSpec():
            from mixedmode.sinks.lakehouse import LakehouseSink  # noqa: PLC0415 - only a job that writes to it needs it

            return LakehouseSink(sink, context)
        case KafkaSinkSpec():
            from mixedmode.sinks.kafka import KafkaSink  # noqa: PLC0415 - only a job that writes to it needs it

            return KafkaSink(sink, context)
        case PostgresSinkSpec():
            return TableSink(postgres_table(sink), context, create=sink.create)
        case SqliteSinkSpec():
            return TableSink(SqliteTable(sink.path, sink.table, sink.place), context, create=sink.create)
    raise AssertionError(sink)


def postgres_table(sink: PostgresSinkSpec) -> Database:
    """Return the table of an output. Raises InvalidJobError if the library for PostgreSQL is not installed."""
    try:
        from mixedmode.sinks.tables.postgres import PostgresTable  # noqa: PLC0415 - only a job that writes to it needs it
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        msg = (
            "a job that writes to PostgreSQL needs the library psycopg, which is not installed. Install it: "
            f"{install_command('postgres')}. sink={sink.place}"
        )
        raise InvalidJobError(msg) from error
    return PostgresTable(sink.url, sink.table_schema, sink.table, sink.place)
