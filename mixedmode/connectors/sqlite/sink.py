"""Opens tables in SQLite files as sinks."""

from mixedmode.connectors.sqlite.spec import SqliteSinkSpec
from mixedmode.connectors.sqlite.table import SqliteTable
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables.table_sink import TableSink


def open_sqlite_sink(sink: SqliteSinkSpec, context: SinkContext) -> TableSink:
    """Return the sink."""
    return TableSink(SqliteTable(sink.path, sink.table, sink.place), context, create=sink.create)
