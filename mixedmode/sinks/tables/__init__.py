"""Tables in databases as outputs: PostgreSQL and SQLite."""

from mixedmode.sinks.tables.sqlite import SqliteTable
from mixedmode.sinks.tables.table_sink import TableSink

__all__ = ["SqliteTable", "TableSink"]
