"""Which function a map step calls: a class that is imported where it is needed, or, in tests, the class itself."""

from typing import Protocol

from mixedmode.operators.classes import ClassKind, GivenClass, NamedClass
from mixedmode.operators.map.function import MapFunction

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


class MapReference(NamedClass[MapFunction]):
    """A MapSource that a job names."""

    __slots__ = ()
    kind = _KIND


class LocalMap(GivenClass[MapFunction]):
    """A MapSource of a class that is there, for tests."""

    __slots__ = ()
    kind = _KIND
