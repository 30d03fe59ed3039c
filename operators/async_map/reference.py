"""References to the class of an `async-map` step: a class to import where it is needed."""

from typing import Protocol

from mixedmode.operators.async_map.function import AsyncMapFunction
from mixedmode.operators.classes import ClassKind, NamedClass

__all__ = ["AsyncMapReference", "AsyncMapSource"]

_KIND: ClassKind[AsyncMapFunction] = ClassKind(
    noun="async map function",
    key="async-map",
    bases=(AsyncMapFunction,),
    derives_from="mixedmode.process.AsyncMapFunction",
)


class AsyncMapSource(Protocol):
    """A source of function objects."""

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    def load(self) -> type[AsyncMapFunction]:
        """Return the class. Raise InvalidJobError if it cannot be loaded."""

    def create(self) -> AsyncMapFunction:
        """Return a new function object. Raise InvalidJobError if the class cannot be loaded or instantiated."""


class AsyncMapReference(NamedClass[AsyncMapFunction]):
    """An AsyncMapSource whose class is named in a job."""

    __slots__ = ()
    kind = _KIND
