"""Which function a map step calls: a class that is imported where it is needed, or, in tests, the class itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from operators.classes import ClassKind, checked_class, class_named, made, split_reference
from operators.map.function import MapFunction

__all__ = ["LocalMap", "MapReference", "MapSource"]

_KIND: ClassKind[MapFunction] = ClassKind(
    noun="map function", key="map", bases=(MapFunction,), derives_from="mixedmode.process.MapFunction"
)


class MapSource(Protocol):
    """Makes function objects."""

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    def create(self) -> MapFunction:
        """A new function object. Raises InvalidJobError when there is none to be had."""


@dataclass(frozen=True, slots=True)
class MapReference:
    """`module:name`, made with the keyword arguments `args`; `folder` goes on sys.path to import it. Picklable."""

    module: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None

    @classmethod
    def parse(cls, text: str, args: Mapping[str, Any] | None = None, folder: str | None = None) -> "MapReference":
        """Of `package.module:Class`. Raises InvalidJobError when it is not of this form."""
        return cls(*split_reference(text, _KIND), dict(args or {}), folder)

    @property
    def label(self) -> str:
        """See MapSource."""
        return f"{self.module}:{self.name}"

    def create(self) -> MapFunction:
        """See MapSource. The module is imported, so what stands at its top level runs."""
        return made(class_named(self.module, self.name, self.folder, _KIND), self.args, self.label, _KIND)


@dataclass(frozen=True, slots=True)
class LocalMap:
    """A class that need not be importable: for tests in one process."""

    function_class: type[MapFunction]
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """See MapSource."""
        return f"{self.function_class.__module__}:{self.function_class.__qualname__}"

    def create(self) -> MapFunction:
        """See MapSource."""
        return made(checked_class(self.function_class, self.label, _KIND), self.args, self.label, _KIND)
