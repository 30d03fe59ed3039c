"""All kinds of source as one type. The `format` of a section selects its kind."""

from typing import Annotated

from pydantic import Discriminator, Tag

from mixedmode.config.custom import CustomSourceSpec
from mixedmode.config.file_sources import FileSourceSpec
from mixedmode.config.history import HISTORIES, LIVES, HistoryAndLiveSpec
from mixedmode.config.kafka import KafkaSourceSpec
from mixedmode.config.kinds import HISTORY_AND_LIVE, Kinds, formats_of, kind_among
from mixedmode.config.lakehouse import TableSourceSpec
from mixedmode.config.sink_kinds import SIDE_OUTPUTS, SINKS

__all__ = ["CONNECTOR_KINDS", "AnySource", "formats_of"]

_SOURCES: Kinds = {
    "files": FileSourceSpec,
    "kafka": KafkaSourceSpec,
    "lakehouse": TableSourceSpec,
    "custom": CustomSourceSpec,
    HISTORY_AND_LIVE: HistoryAndLiveSpec,
}
#: the sets of kinds; a section of a job file is of one kind of one set
CONNECTOR_KINDS = (_SOURCES, SINKS, SIDE_OUTPUTS, HISTORIES, LIVES)

AnySource = Annotated[
    Annotated[FileSourceSpec, Tag("files")]
    | Annotated[KafkaSourceSpec, Tag("kafka")]
    | Annotated[TableSourceSpec, Tag("lakehouse")]
    | Annotated[CustomSourceSpec, Tag("custom")]
    | Annotated[HistoryAndLiveSpec, Tag(HISTORY_AND_LIVE)],
    Discriminator(kind_among(_SOURCES)),
]
