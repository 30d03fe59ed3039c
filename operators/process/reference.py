"""References to a step's process function: a class to import where it is needed, or, in tests, the class itself."""

from abc import abstractmethod
from typing import Protocol

from typing_extensions import override

from mixedmode.operators.classes import ClassKind, GivenClass, NamedClass
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process.function import (
    KeyedBatchProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)

__all__ = [
    "AnyFunction",
    "CoFunctionReference",
    "FunctionReference",
    "FunctionSource",
    "LocalCoFunction",
    "LocalFunction",
]

AnyFunction = KeyedProcessFunction | KeyedBatchProcessFunction | KeyedCoProcessFunction

_KIND: ClassKind[AnyFunction] = ClassKind(
    noun="process function",
    key="process",
    bases=(KeyedProcessFunction, KeyedBatchProcessFunction),
    derives_from="mixedmode.process.KeyedProcessFunction or KeyedBatchProcessFunction",
)


_CO_KIND: ClassKind[AnyFunction] = ClassKind(
    noun="co-process function",
    key="class",
    bases=(KeyedCoProcessFunction,),
    derives_from="mixedmode.process.KeyedCoProcessFunction",
)


class FunctionSource(Protocol):
    """A source of function objects."""

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """`module:Class`, for messages."""

    @property
    @abstractmethod
    def attributes(self) -> OperatorAttributes:
        """The attributes that the class declares. Raise InvalidJobError if the class cannot be loaded."""

    @abstractmethod
    def create(self) -> AnyFunction:
        """Return a new function object. Raise InvalidJobError if the class cannot be loaded or instantiated."""


class FunctionReference(NamedClass[AnyFunction], FunctionSource):
    """A FunctionSource whose class is named in a job."""

    __slots__ = ()
    kind = _KIND

    @property
    @override
    def attributes(self) -> OperatorAttributes:
        """Import the module, so its top-level code runs, and return the attributes."""
        return self.load().attributes


class CoFunctionReference(FunctionReference):
    """A FunctionSource whose class is named in a job, for a step with two inputs."""

    __slots__ = ()
    kind = _CO_KIND


class LocalFunction(GivenClass[AnyFunction], FunctionSource):
    """A FunctionSource of a class object, for tests."""

    __slots__ = ()
    kind = _KIND

    @property
    @override
    def attributes(self) -> OperatorAttributes:
        return self.load().attributes


class LocalCoFunction(LocalFunction):
    """A FunctionSource of a class object for a step with two inputs, for tests."""

    __slots__ = ()
    kind = _CO_KIND
