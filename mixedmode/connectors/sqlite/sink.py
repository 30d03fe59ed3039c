"""Opens tables in SQLite files as sinks."""

from mixedmode.config.tables import SqliteSinkSpec
from mixedmode.sinks.sink import SinkContext
from mixedmode.sinks.tables import SqliteTable, TableSink


def open_sqlite_sink(sink: SqliteSinkSpec, context: SinkContext) -> TableSink:
    """Return the sink."""
    return TableSink(SqliteTable(sink.path, sink.table, sink.place), context, create=sink.create)
