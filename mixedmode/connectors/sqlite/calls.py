"""Tables in SQLite files as sinks, in Python."""

from typing import TypedDict, Unpack

from mixedmode.connectors.calls import FileName, checked
from mixedmode.connectors.sqlite.kind import KIND
from mixedmode.connectors.sqlite.spec import SqliteSinkSpec


class SqliteSinkArguments(TypedDict, total=False):
    """Arguments of sinks of SQLite tables. docs/tables.md is the guide.

    create: True creates the table, its primary key and the bookkeeping table `_mixedmode` where they are missing.
        False requires that they exist.
    """

    create: bool


class SqliteSinks:
    """The methods of `Sink` for SQLite.  table: the table, which must belong to this output alone."""

    @staticmethod
    def sqlite(path: FileName, table: str, **settings: Unpack[SqliteSinkArguments]) -> SqliteSinkSpec:
        """Return a sink that writes a table in a SQLite file on this machine."""
        given = {"format": "sqlite", "path": path, "table": table}
        return checked(SqliteSinkSpec, KIND, given, settings, call="Sink.sqlite", takes=SqliteSinkArguments)
