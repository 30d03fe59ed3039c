"""References to a step's process function: a class to import where it is needed, or, in tests, the class itself."""

from typing import Protocol

from mixedmode.operators.classes import ClassKind, GivenClass, NamedClass
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process.function import KeyedBatchProcessFunction, KeyedProcessFunction

__all__ = ["AnyFunction", "FunctionReference", "FunctionSource", "LocalFunction"]

AnyFunction = KeyedProcessFunction | KeyedBatchProcessFunction

_KIND: ClassKind[AnyFunction] = ClassKind(
    noun="process function",
    key="process",
    bases=(KeyedProcessFunction, KeyedBatchProcessFunction),
    derives_from="mixedmode.process.KeyedProcessFunction or KeyedBatchProcessFunction",
)


class FunctionSource(Protocol):
    """A source of function objects."""

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    @property
    def attributes(self) -> OperatorAttributes:
        """The attributes that the class declares. Raise InvalidJobError if the class cannot be loaded."""

    def create(self) -> AnyFunction:
        """Return a new function object. Raise InvalidJobError if the class cannot be loaded or instantiated."""


class FunctionReference(NamedClass[AnyFunction]):
    """A FunctionSource whose class is named in a job."""

    __slots__ = ()
    kind = _KIND

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource. The module is imported, so its top-level code runs."""
        return self.load().attributes


class LocalFunction(GivenClass[AnyFunction]):
    """A FunctionSource of a class object, for tests."""

    __slots__ = ()
    kind = _KIND

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource."""
        return self.load().attributes
