"""Which function a step calls: a class that is imported where it is needed, or, in tests, the class itself."""

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
    """Makes function objects."""

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    @property
    def attributes(self) -> OperatorAttributes:
        """What the class says about itself. Raises InvalidJobError when there is none to be had."""

    def create(self) -> AnyFunction:
        """A new function object. Raises InvalidJobError when there is none to be had."""


class FunctionReference(NamedClass[AnyFunction]):
    """A FunctionSource that a job names."""

    __slots__ = ()
    kind = _KIND

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource. The module is imported, so what stands at its top level runs."""
        return self.load().attributes


class LocalFunction(GivenClass[AnyFunction]):
    """A FunctionSource of a class that is there, for tests."""

    __slots__ = ()
    kind = _KIND

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource."""
        return self.load().attributes
