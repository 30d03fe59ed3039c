"""Which function a step calls: a class that is imported where it is needed, or, in tests, the class itself."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from typing import Any, Protocol

from mixedmode.errors import InvalidJobError
from operators.interface import OperatorAttributes
from operators.process.function import KeyedBatchProcessFunction, KeyedProcessFunction

AnyFunction = KeyedProcessFunction | KeyedBatchProcessFunction


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
        module, colon, name = text.partition(":")
        parts = [*module.split("."), *name.split(".")]
        if not colon or not all(part.isidentifier() for part in parts):
            msg = f"this names no process function. Write `package.module:Class`. process={text}"
            raise InvalidJobError(msg)
        return cls(module, name, dict(args or {}), folder)

    @property
    def label(self) -> str:
        """See FunctionSource."""
        return f"{self.module}:{self.name}"

    @property
    def attributes(self) -> OperatorAttributes:
        """See FunctionSource. The module is imported, so what stands at its top level runs."""
        return _checked(self._load(), self.label).attributes

    def create(self) -> AnyFunction:
        """See FunctionSource. The module is imported, so what stands at its top level runs."""
        return _made(self._load(), self.args, self.label)

    def _load(self) -> Any:
        try:
            is_found = sys.path[:1] == [self.folder] and self.module in sys.modules
            if self.folder is not None and not is_found:
                _put_first_on_path(self.folder)
                _forget_other(self.module, self.folder)
            found: Any = importlib.import_module(self.module)
        except Exception as error:  # whatever the module's top level raises
            msg = (
                f"the module of a process function cannot be imported: {type(error).__name__}: {error}. Put the file "
                "next to the job file, or install its package, and import it once by hand to see the whole error. "
                f"process={self.label}, folder={self.folder}"
            )
            raise InvalidJobError(msg) from error
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found


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
        return _checked(self.function_class, self.label).attributes

    def create(self) -> AnyFunction:
        """See FunctionSource."""
        return _made(self.function_class, self.args, self.label)


def file_of(function: AnyFunction) -> str | None:
    """The file that defines a function's class, as tracebacks name it."""
    module = sys.modules.get(type(function).__module__)
    return getattr(module, "__file__", None)


def _checked(found: Any, label: str) -> type[AnyFunction]:
    if not (isinstance(found, type) and issubclass(found, KeyedProcessFunction | KeyedBatchProcessFunction)):
        msg = (
            "this is no process function. Name a class that derives from mixedmode.process.KeyedProcessFunction or "
            f"KeyedBatchProcessFunction. process={label}, found={'nothing' if found is None else repr(found)}"
        )
        raise InvalidJobError(msg)
    return found


def _made(named: Any, args: Mapping[str, Any], label: str) -> AnyFunction:
    found = _checked(named, label)
    try:
        inspect.signature(found).bind(**args)
    except TypeError as error:
        msg = (
            f"the arguments do not fit the process function: {error}. Set `args` to what its __init__ takes. "
            f"process={label}, takes={inspect.signature(found)}, args={dict(args)}"
        )
        raise InvalidJobError(msg) from error
    try:
        return found(**args)
    except Exception as error:
        msg = (
            f"the process function cannot be made: {type(error).__name__}: {error}. Correct its __init__ or the step's "
            f"`args`. process={label}, args={dict(args)}"
        )
        raise InvalidJobError(msg) from error


def _put_first_on_path(folder: str) -> None:
    """It stays there, for what the function imports when it runs. Forgetting what was there is slow."""
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()  # its files may be new


def _forget_other(module: str, folder: str) -> None:
    """A Python worker serves several jobs, whose folders may have modules of one name: forget another folder's."""
    top = module.partition(".")[0]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    if loaded is None:
        return
    spec = PathFinder.find_spec(top, [folder])
    if spec is not None and spec.origin is not None and spec.origin != loaded:
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[name]
