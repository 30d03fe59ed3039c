"""The entry of the registry for files."""

from mixedmode.config.registry import ConnectorKind
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec

KIND = ConnectorKind(
    "files",
    source=FileSourceSpec,
    sink=FileSinkSpec,
    open_source="mixedmode.connectors.files.source:FileSource",
    open_sink="mixedmode.connectors.files.sink:open_file_sink",
)
