"""The entry of the registry for SQLite."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.sqlite.spec import SqliteSinkSpec

KIND = ConnectorKind("sqlite", sink=SqliteSinkSpec, open_sink="mixedmode.connectors.sqlite.sink:open_sqlite_sink")
