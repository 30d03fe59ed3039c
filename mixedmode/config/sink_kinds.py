"""All kinds of sink as one type, and all kinds of side output as another.

The `format` of a section selects its kind.
"""

from typing import Annotated

from pydantic import Discriminator, Tag

from mixedmode.config.custom import CustomSideOutputSpec, CustomSinkSpec
from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec
from mixedmode.config.kafka_sink import KafkaSideOutputSpec, KafkaSinkSpec
from mixedmode.config.kinds import Kinds, kind_among
from mixedmode.config.lakehouse import TableSideOutputSpec, TableSinkSpec
from mixedmode.config.sinks import ConsoleSideOutputSpec, ConsoleSinkSpec
from mixedmode.config.tables import PostgresSideOutputSpec, PostgresSinkSpec, SqliteSideOutputSpec, SqliteSinkSpec

SINKS: Kinds = {
    "files": FileSinkSpec,
    "console": ConsoleSinkSpec,
    "kafka": KafkaSinkSpec,
    "postgres": PostgresSinkSpec,
    "sqlite": SqliteSinkSpec,
    "lakehouse": TableSinkSpec,
    "custom": CustomSinkSpec,
}
SIDE_OUTPUTS: Kinds = {
    "files": FileSideOutputSpec,
    "console": ConsoleSideOutputSpec,
    "kafka": KafkaSideOutputSpec,
    "postgres": PostgresSideOutputSpec,
    "sqlite": SqliteSideOutputSpec,
    "lakehouse": TableSideOutputSpec,
    "custom": CustomSideOutputSpec,
}

AnySink = Annotated[
    Annotated[FileSinkSpec, Tag("files")]
    | Annotated[ConsoleSinkSpec, Tag("console")]
    | Annotated[KafkaSinkSpec, Tag("kafka")]
    | Annotated[PostgresSinkSpec, Tag("postgres")]
    | Annotated[SqliteSinkSpec, Tag("sqlite")]
    | Annotated[TableSinkSpec, Tag("lakehouse")]
    | Annotated[CustomSinkSpec, Tag("custom")],
    Discriminator(kind_among(SINKS)),
]
AnySideOutput = Annotated[
    Annotated[FileSideOutputSpec, Tag("files")]
    | Annotated[ConsoleSideOutputSpec, Tag("console")]
    | Annotated[KafkaSideOutputSpec, Tag("kafka")]
    | Annotated[PostgresSideOutputSpec, Tag("postgres")]
    | Annotated[SqliteSideOutputSpec, Tag("sqlite")]
    | Annotated[TableSideOutputSpec, Tag("lakehouse")]
    | Annotated[CustomSideOutputSpec, Tag("custom")],
    Discriminator(kind_among(SIDE_OUTPUTS)),
]
