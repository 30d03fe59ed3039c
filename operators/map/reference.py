"""References to a step's map function: a class to import where it is needed, or, in tests, the class itself."""

from typing import Protocol

from mixedmode.operators.classes import ClassKind, GivenClass, NamedClass
from mixedmode.operators.map.function import MapFunction

__all__ = ["LocalMap", "MapReference", "MapSource"]

_KIND: ClassKind[MapFunction] = ClassKind(
    noun="map function", key="map", bases=(MapFunction,), derives_from="mixedmode.process.MapFunction"
)


class MapSource(Protocol):
    """A source of function objects."""

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    def create(self) -> MapFunction:
        """Return a new function object. Raise InvalidJobError if the class cannot be loaded or instantiated."""


class MapReference(NamedClass[MapFunction]):
    """A MapSource whose class is named in a job."""

    __slots__ = ()
    kind = _KIND


class LocalMap(GivenClass[MapFunction]):
    """A MapSource of a class object, for tests."""

    __slots__ = ()
    kind = _KIND
