"""Every kind of source and sink, as one type of each: which kind a section is of is told by its `format`."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

from pydantic import Discriminator, Tag

from mixedmode.config.fields import Section
from mixedmode.config.files import FileSideOutputSpec, FileSinkSpec, FileSourceSpec
from mixedmode.config.sinks import ConsoleSideOutputSpec, ConsoleSinkSpec

__all__ = ["CONNECTOR_KINDS", "AnySideOutput", "AnySink", "AnySource", "formats_of"]

Kinds = Mapping[str, type[Section]]

_SOURCES: Kinds = {"files": FileSourceSpec}
_SINKS: Kinds = {"files": FileSinkSpec, "console": ConsoleSinkSpec}
_SIDE_OUTPUTS: Kinds = {"files": FileSideOutputSpec, "console": ConsoleSideOutputSpec}
#: the kinds among which a section is one
CONNECTOR_KINDS = (_SOURCES, _SINKS, _SIDE_OUTPUTS)


def formats_of(kind: type[Section]) -> tuple[str, ...]:
    """The values of `format` that tell a kind; () if another key tells it."""
    field = kind.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def _kind_among(kinds: Kinds) -> Callable[[Any], str | None]:
    def kind_of(section: Any) -> str | None:
        """The kind that is meant; an unknown format stands for itself, for the message; None without one."""
        if isinstance(section, Section):
            return next((name for name, kind in kinds.items() if isinstance(section, kind)), None)
        if not isinstance(section, Mapping) or section.get("format") is None:
            return None
        found = str(section["format"])
        return next((name for name, kind in kinds.items() if found in formats_of(kind)), found)

    return kind_of


AnySource = Annotated[
    Annotated[FileSourceSpec, Tag("files")],
    Discriminator(_kind_among(_SOURCES)),
]
AnySink = Annotated[
    Annotated[FileSinkSpec, Tag("files")] | Annotated[ConsoleSinkSpec, Tag("console")],
    Discriminator(_kind_among(_SINKS)),
]
AnySideOutput = Annotated[
    Annotated[FileSideOutputSpec, Tag("files")] | Annotated[ConsoleSideOutputSpec, Tag("console")],
    Discriminator(_kind_among(_SIDE_OUTPUTS)),
]
