"""The entry of the registry for custom classes."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.custom.spec import CustomSinkSpec, CustomSourceSpec

KIND = ConnectorKind(
    "custom",
    source=CustomSourceSpec,
    sink=CustomSinkSpec,
    open_source="mixedmode.connectors.custom.source:CustomSourceReader",
    open_sink="mixedmode.connectors.custom.sink:CustomSinkWriter",
)
