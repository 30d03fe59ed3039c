"""What the registry knows about files."""

from mixedmode.config.file_sources import FileSourceSpec
from mixedmode.config.files import FileSinkSpec
from mixedmode.config.registry import ConnectorKind

KIND = ConnectorKind(
    "files",
    source=FileSourceSpec,
    sink=FileSinkSpec,
    open_source="mixedmode.sources.files:FileSource",
    open_sink="mixedmode.sinks.file_sink:open_file_sink",
)
