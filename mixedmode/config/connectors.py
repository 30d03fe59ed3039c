"""Every kind of source and sink, as one type of each: which kind a section is of is told by its `format`."""

from typing import Annotated

from pydantic import Discriminator, Tag

from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec, FileSourceSpec
from mixedmode.config.history import HISTORIES, LIVES, HistoryAndLiveSpec
from mixedmode.config.kafka import KafkaSideOutputSpec, KafkaSinkSpec, KafkaSourceSpec
from mixedmode.config.kinds import HISTORY_AND_LIVE, Kinds, formats_of, kind_among
from mixedmode.config.lakehouse import TableSideOutputSpec, TableSinkSpec, TableSourceSpec
from mixedmode.config.python import PythonSideOutputSpec, PythonSinkSpec, PythonSourceSpec
from mixedmode.config.sinks import ConsoleSideOutputSpec, ConsoleSinkSpec
from mixedmode.config.tables import PostgresSideOutputSpec, PostgresSinkSpec, SqliteSideOutputSpec, SqliteSinkSpec

__all__ = ["CONNECTOR_KINDS", "AnySideOutput", "AnySink", "AnySource", "formats_of"]

_SOURCES: Kinds = {
    "files": FileSourceSpec,
    "kafka": KafkaSourceSpec,
    "lakehouse": TableSourceSpec,
    "python": PythonSourceSpec,
    HISTORY_AND_LIVE: HistoryAndLiveSpec,
}
_SINKS: Kinds = {
    "files": FileSinkSpec,
    "console": ConsoleSinkSpec,
    "kafka": KafkaSinkSpec,
    "postgres": PostgresSinkSpec,
    "sqlite": SqliteSinkSpec,
    "lakehouse": TableSinkSpec,
    "python": PythonSinkSpec,
}
_SIDE_OUTPUTS: Kinds = {
    "files": FileSideOutputSpec,
    "console": ConsoleSideOutputSpec,
    "kafka": KafkaSideOutputSpec,
    "postgres": PostgresSideOutputSpec,
    "sqlite": SqliteSideOutputSpec,
    "lakehouse": TableSideOutputSpec,
    "python": PythonSideOutputSpec,
}
#: the kinds among which a section is one
CONNECTOR_KINDS = (_SOURCES, _SINKS, _SIDE_OUTPUTS, HISTORIES, LIVES)


AnySource = Annotated[
    Annotated[FileSourceSpec, Tag("files")]
    | Annotated[KafkaSourceSpec, Tag("kafka")]
    | Annotated[TableSourceSpec, Tag("lakehouse")]
    | Annotated[PythonSourceSpec, Tag("python")]
    | Annotated[HistoryAndLiveSpec, Tag(HISTORY_AND_LIVE)],
    Discriminator(kind_among(_SOURCES)),
]
AnySink = Annotated[
    Annotated[FileSinkSpec, Tag("files")]
    | Annotated[ConsoleSinkSpec, Tag("console")]
    | Annotated[KafkaSinkSpec, Tag("kafka")]
    | Annotated[PostgresSinkSpec, Tag("postgres")]
    | Annotated[SqliteSinkSpec, Tag("sqlite")]
    | Annotated[TableSinkSpec, Tag("lakehouse")]
    | Annotated[PythonSinkSpec, Tag("python")],
    Discriminator(kind_among(_SINKS)),
]
AnySideOutput = Annotated[
    Annotated[FileSideOutputSpec, Tag("files")]
    | Annotated[ConsoleSideOutputSpec, Tag("console")]
    | Annotated[KafkaSideOutputSpec, Tag("kafka")]
    | Annotated[PostgresSideOutputSpec, Tag("postgres")]
    | Annotated[SqliteSideOutputSpec, Tag("sqlite")]
    | Annotated[TableSideOutputSpec, Tag("lakehouse")]
    | Annotated[PythonSideOutputSpec, Tag("python")],
    Discriminator(kind_among(_SIDE_OUTPUTS)),
]

# a source may name a sink of any kind
KafkaSourceSpec.model_rebuild(_types_namespace={"AnySink": AnySink})
HistoryAndLiveSpec.model_rebuild()
