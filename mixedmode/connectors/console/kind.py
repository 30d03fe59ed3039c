"""The entry of the registry for the console."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.console.spec import ConsoleSinkSpec

KIND = ConnectorKind("console", sink=ConsoleSinkSpec, open_sink="mixedmode.connectors.console.sink:open_console")
