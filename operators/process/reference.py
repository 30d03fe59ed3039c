"""Which function a step calls: a class that is imported where it is needed, or, in tests, the class itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from operators.classes import ClassKind, checked_class, class_named, file_of, made, split_reference
from operators.interface import OperatorAttributes
from operators.process.function import KeyedBatchProcessFunction, KeyedProcessFunction

__all__ = ["AnyFunction", "FunctionReference", "FunctionSource", "LocalFunction", "file_of"]

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


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """`module:name`, made with the keyword arguments `args`; `folder` goes on sys.path to import it. Picklable."""

    module: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None

    @classmethod
    def parse(cls, text: str, args: Mapping[str, Any] | None = None, folder: str | None = None) -> "FunctionReference":
        """Of `package.module:Class`. Raises InvalidJobError when it is not of this form."""
        return cls(*split_reference(text, _KIND), dict(args or {}), folder)

    @property
    def label(self) -> str:
        """See FunctionSource."""
        return f"{self.module}:{self.name}"

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource. The module is imported, so what stands at its top level runs."""
        return self._load().attributes

    def create(self) -> AnyFunction:
        """See FunctionSource. The module is imported, so what stands at its top level runs."""
        return made(self._load(), self.args, self.label, _KIND)

    def _load(self) -> type[AnyFunction]:
        return class_named(self.module, self.name, self.folder, _KIND)


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A class that need not be importable: for tests in one process."""

    function_class: type[AnyFunction]
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """See FunctionSource."""
        return f"{self.function_class.__module__}:{self.function_class.__qualname__}"

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource."""
        return checked_class(self.function_class, self.label, _KIND).attributes

    def create(self) -> AnyFunction:
        """See FunctionSource."""
        return made(checked_class(self.function_class, self.label, _KIND), self.args, self.label, _KIND)
