"""The sections of a job file that are a source or a sink of any installed kind, as types.

The type of such a field says its role only. The kinds come from the registry when a section is validated, so a package
can add a kind, and this package imports none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import Discriminator, GetCoreSchemaHandler, Tag, TypeAdapter
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypeAliasType

from mixedmode.config.fields import Section
from mixedmode.config.registry import connector_kinds, formats_of
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec

Role = Literal["source", "sink", "side output", "history", "live", "dimension"]
ROLES: tuple[Role, ...] = ("source", "sink", "side output", "history", "live", "dimension")
#: {kind: its settings in one role}
Kinds = Mapping[str, type[Section]]


@dataclass(frozen=True, slots=True)
class OfAnyKind:
    """Marks the type of a section that is of one of the kinds that have this role."""

    role: Role

    @property
    def kinds(self) -> Kinds:
        """The kinds, by name."""
        return kinds_with(self.role)

    @property
    def base(self) -> type[SourceSpec | SinkSpec]:
        """The class of the settings of all of them."""
        return {"sink": SinkSpec, "side output": SideOutputSpec}.get(self.role, SourceSpec)

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, section: Any) -> Any:
        return _adapter(tuple(self.kinds.items())).validate_python(section)


AnySource = TypeAliasType("AnySource", Annotated[SourceSpec, OfAnyKind("source")])
AnySink = TypeAliasType("AnySink", Annotated[SinkSpec, OfAnyKind("sink")])
AnySideOutput = TypeAliasType("AnySideOutput", Annotated[SideOutputSpec, OfAnyKind("side output")])
#: the two sides of a source with a history and a live continuation
AnyHistory = TypeAliasType("AnyHistory", Annotated[SourceSpec, OfAnyKind("history")])
AnyLive = TypeAliasType("AnyLive", Annotated[SourceSpec, OfAnyKind("live")])
#: a bounded table that sql joins by name
AnyDimension = TypeAliasType("AnyDimension", Annotated[SourceSpec, OfAnyKind("dimension")])


def kinds_with(role: Role) -> Kinds:
    """Return the kinds that have a role."""
    found: dict[str, type[Section] | None] = {}
    for name, kind in connector_kinds().items():
        match role:
            case "sink":
                found[name] = kind.sink
            case "side output":
                found[name] = kind.side_output
            case "source" if kind.source is not None and not kind.source.is_dimension_only:
                found[name] = kind.source
            case "history" | "live" if kind.source is not None and role in kind.source.may_be:
                found[name] = kind.source
            case "dimension" if kind.source is not None and kind.source.dimension_settings:
                found[name] = kind.source
    return {name: section for name, section in found.items() if section is not None}


def role_of(annotation: Any) -> OfAnyKind | None:
    """Return the mark of a type such as AnySink; None for another type."""
    if not isinstance(annotation, TypeAliasType):
        return None
    return next((mark for mark in annotation.__value__.__metadata__ if isinstance(mark, OfAnyKind)), None)


def keys_of(name: str) -> frozenset[str]:
    """Return the keys that identify a kind without a format; none for other kinds, and for kinds of steps."""
    kind = connector_kinds().get(name)
    return frozenset() if kind is None else kind.keys


@cache
def _adapter(kinds: tuple[tuple[str, type[Section]], ...]) -> TypeAdapter[Any]:
    """Return the validator of a section of one of these kinds."""
    tagged = tuple(Annotated[section, Tag(name)] for name, section in kinds)
    union: Any = Annotated[Union[tagged], Discriminator(lambda section: _kind_in(section, dict(kinds)))]  # noqa: UP007
    return TypeAdapter(union)


def _kind_in(section: Any, kinds: Kinds) -> str | None:
    """Return the kind that is meant; an unknown format stands for itself, for the message; None without one."""
    if isinstance(section, Section):
        own = getattr(section, "format", None)  # of a kind that cannot have this role
        return next((name for name, kind in kinds.items() if isinstance(section, kind)), own)
    if not isinstance(section, Mapping):
        return None
    for name in kinds:
        if keys_of(name) & section.keys():
            return name
    if section.get("format") is None:
        return None
    found = str(section["format"])
    return next((name for name, kind in kinds.items() if found in formats_of(kind)), found)
