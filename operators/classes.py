"""Custom classes and functions: named in a job, imported where they are needed; classes are instantiated.

A class that cannot be loaded is always an InvalidJobError that says what the class should have been. The error is the
same for every kind of function. Only names are pickled: a task imports the class itself.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.secrets import has_reference, has_secrets, hidden, resolve

__all__ = [
    "ClassKind",
    "ClassSource",
    "GivenClass",
    "NamedClass",
    "class_reference",
    "file_of",
    "object_named",
    "put_first_on_path",
]

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)

_OWN = __name__.partition(".")[0]  # the name of this program's package

#: folders from which classes were imported in this process
_FOLDERS: set[str] = set()


@dataclass(frozen=True, slots=True)
class ClassKind(Generic[F]):
    """A kind of custom class: its noun in messages, the step's key that names the class, and its base classes."""

    noun: str
    key: str
    bases: tuple[type[F], ...]
    derives_from: str

    def named(self, text: str, args: Mapping[str, Any] | None = None, folder: str | None = None) -> "NamedClass[F]":
        """Return the class `package.module:Class`. Raise InvalidJobError if `text` does not have this form."""
        return NamedClass(self, *_split_reference(text, self), dict(args or {}), folder)


class ClassSource(Protocol[F_co]):
    """A class of the user, and the arguments with which it is instantiated."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """`module:Class`, for messages."""

    def load(self) -> type[F_co]:
        """Return the class. Raise InvalidJobError if it cannot be loaded, or is not of the right kind."""

    def create(self) -> F_co:
        """Return a new instance. Raise InvalidJobError if the class cannot be loaded or instantiated."""


@dataclass(frozen=True, slots=True)
class NamedClass(ClassSource[F]):
    """`module:name`, which is imported where it is needed. Picklable.

    `args`: the keyword arguments of the class. `folder` is put on sys.path to import the module.
    """

    kind: ClassKind[F]
    module: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    folder: str | None = None

    @property
    @override
    def label(self) -> str:
        return f"{self.module}:{self.name}"

    @override
    def load(self) -> type[F]:
        """Import the module, which runs its top-level code, and return the class. Raise InvalidJobError on failure."""
        found = object_named(self.module, self.name, self.folder, noun=self.kind.noun, key=self.kind.key)
        return _checked_class(found, self.label, self.kind)

    @override
    def create(self) -> F:
        return _made(self.load(), self.args, self.label, self.kind)


@dataclass(frozen=True, slots=True)
class GivenClass(ClassSource[F]):
    """A class that need not be importable, for tests in one process."""

    kind: ClassKind[F]
    function_class: type[F]
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    @override
    def label(self) -> str:
        return f"{self.function_class.__module__}:{self.function_class.__qualname__}"

    @override
    def load(self) -> type[F]:
        return _checked_class(self.function_class, self.label, self.kind)

    @override
    def create(self) -> F:
        return _made(self.load(), self.args, self.label, self.kind)


def class_reference(function: str | Callable[..., Any], *, place: str, noun: str = "class") -> tuple[str, Path | None]:
    """Return (name, folder to import from) of a class or function that a task can import.

    place and noun: the call that has it, and what it is, for messages. The folder is None for a name, and for a class
    or function without a file. Raises InvalidJobError for one that cannot be imported.
    """
    if isinstance(function, str):
        return function, None
    if not hasattr(function, "__qualname__") or not hasattr(function, "__module__"):  # an instance, a generator
        msg = (
            f"{place}: this is no {noun}. Give the {noun} itself, or its name as package.module:Name. "
            f"found={type(function).__name__}"
        )
        raise InvalidJobError(msg)
    module, name = sys.modules.get(function.__module__), function.__qualname__
    reference = f"{function.__module__}:{name}"
    if module is None or function.__module__ == "__main__" or not _has(module, name, function):
        msg = (
            f"{place}: Spark's tasks import the {noun}, and this one cannot be imported. Define it at the top of a "
            f"module, and import it from there. found={reference}"
        )
        raise InvalidJobError(msg)
    return reference, _folder_of(function.__module__)


def _has(module: object, name: str, function: object) -> bool:
    try:
        return attrgetter(name)(module) is function
    except AttributeError:  # `f.<locals>.C`, or the name means nothing there
        return False


def file_of(function: object) -> str | None:
    """Return the file that defines the class of `function`, as tracebacks name it."""
    module = sys.modules.get(type(function).__module__)
    return getattr(module, "__file__", None)


def _split_reference(text: str, kind: ClassKind[F]) -> tuple[str, str]:
    """Return (module, name) of `package.module:Class`. Raise InvalidJobError if `text` does not have this form."""
    module, colon, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        msg = f"this names no {kind.noun}. Write `package.module:Class`. {kind.key}={text}"
        raise InvalidJobError(msg)
    return module, name


def object_named(module: str, name: str, folder: str | None, *, noun: str, key: str) -> Any:
    """Import the module, with `folder` on sys.path, and return what has this name in it.

    The module's top-level code runs. Raise InvalidJobError if that fails, or if nothing has the name.
    noun, key: what it is, for the message.
    """
    label = f"{module}:{name}"
    if folder is not None:
        folder = str(Path(folder).absolute())
    try:
        if folder is not None and not _is_loaded_from(module, folder):
            put_first_on_path(folder)
            _forget_others(module, folder)
        found: Any = importlib.import_module(module)
    except Exception as error:  # whatever the module's top level raises
        msg = (
            f"the module of a {noun} cannot be imported: {type(error).__name__}: {error}. Put the file "
            "next to the job file, or install its package, and import it once by hand to see the whole error. "
            f"{key}={label}, folder={folder}"
        )
        raise InvalidJobError(msg) from error
    if folder is not None and _is_hidden(module, folder):
        msg = (
            f"the module of a {noun} is in the folder of the job, and Python has another one of its name: a package "
            "with __init__.py hides one without. Add an __init__.py to the folder of the package, or choose another "
            f"name for it. {key}={label}, folder={folder}, hidden by={_folder_of(module)}"
        )
        raise InvalidJobError(msg)
    try:
        return attrgetter(name)(found)
    except AttributeError as error:
        own = [one for one, value in vars(found).items() if getattr(value, "__module__", None) == module]
        msg = (
            f"the module has no {noun} of this name. Correct the name, or add it to the module. {key}={label}, "
            f"file={getattr(found, '__file__', None)}, defined={', '.join(sorted(own)) or 'nothing'}"
        )
        raise InvalidJobError(msg) from error


def _checked_class(found: Any, label: str, kind: ClassKind[F]) -> type[F]:
    """Return `found` if it is a class of this kind; otherwise raise InvalidJobError."""
    if not (isinstance(found, type) and issubclass(found, kind.bases)):
        msg = (
            f"this is no {kind.noun}. Name a class that derives from {kind.derives_from}. {kind.key}={label}, "
            f"found={found!r}"
        )
        raise InvalidJobError(msg)
    return found


def _made(found: type[F], args: Mapping[str, Any], label: str, kind: ClassKind[F]) -> F:
    """Return a new instance. Raise InvalidJobError if `args` do not fit __init__, or if __init__ fails.

    Texts in `args` may name variables of the environment. Only the instance has their values.
    """
    try:
        inspect.signature(found).bind(**args)
    except TypeError as error:
        msg = (
            f"the arguments do not fit the {kind.noun}: {error}. Set `args` to what its __init__ takes. "
            f"{kind.key}={label}, takes={inspect.signature(found)}, args={dict(args)}"
        )
        raise InvalidJobError(msg) from error
    resolved = {name: _resolved(value, where=f"args.{name} of {label}") for name, value in args.items()}
    try:
        return found(**resolved)
    except Exception as error:  # noqa: BLE001 - whatever the class raises
        msg = (
            f"the {kind.noun} cannot be made: {type(error).__name__}: {hidden(str(error))}. Correct its __init__ or "
            f"the step's `args`. {kind.key}={label}, args={dict(args)}"
        )
        raise InvalidJobError(msg) from (None if has_secrets(str(error)) else error)


def _resolved(value: Any, *, where: str) -> Any:
    """Return an argument with the values of the variables that it names; the same object if it names none."""
    if not _names_variables(value):
        return value
    if isinstance(value, str):
        return resolve(value, where=where)
    if isinstance(value, Mapping):
        return {name: _resolved(one, where=where) for name, one in value.items()}
    return [_resolved(one, where=where) for one in value]


def _names_variables(value: Any) -> bool:
    if isinstance(value, str):
        return has_reference(value)
    if isinstance(value, Mapping):
        return any(map(_names_variables, value.values()))
    return isinstance(value, list | tuple) and any(map(_names_variables, value))


def put_first_on_path(folder: str) -> None:
    """Move `folder` to the front of sys.path.

    The folder stays there, because the function may import more modules when it runs. Clearing the import caches is
    slow.
    """
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()  # Python caches folder listings, so it may not know a newer file


def _is_loaded_from(module: str, folder: str) -> bool:
    """Return whether the module is already loaded from `folder`, as a module or in a package."""
    return _folder_of(module) == Path(folder)


def _forget_others(module: str, folder: str) -> None:
    """Remove modules from sys.modules that hide modules of the same name in `folder`.

    One process serves several jobs, and their folders may contain modules with equal names. So this forgets `module`
    itself, and every module that it may import from `folder`, if it was loaded from another job's folder. This program
    itself stays, also if it lies in the folder of a job, as its source does for a job in the root of its repository.
    A package without __init__.py may be divided among folders, so each of its modules is judged by itself.
    """
    top = module.partition(".")[0]
    beside = {one.name for one in iter_modules([folder])} - {_OWN}
    is_whole = top in beside  # a module, or a package with __init__.py
    if _folder_of(top) is None and _has_file(folder, module):
        beside.add(top)
    for name, loaded in list(sys.modules.items()):
        first = name.partition(".")[0]
        loaded_from = _folder_of(name) if first in beside else Path(folder)
        if loaded_from == Path(folder):
            continue
        if first == top and is_whole:
            is_hiding = loaded_from is not None or hasattr(loaded, "__path__")
        else:
            is_hiding = loaded_from is not None and (name == module or str(loaded_from) in _FOLDERS)
        if is_hiding:
            del sys.modules[name]
    _FOLDERS.add(folder)


def _is_hidden(module: str, folder: str) -> bool:
    """Return whether a module in `folder` is not the one that is loaded."""
    is_own = module.partition(".")[0] == _OWN
    return not is_own and not _is_loaded_from(module, folder) and _has_file(folder, module)


def _has_file(folder: str, module: str) -> bool:
    path = Path(folder, *module.split("."))
    return (path / "__init__.py").is_file() or path.with_name(f"{path.name}.py").is_file()


def _folder_of(module: str) -> Path | None:
    """Return the folder from which a module was imported, which holds its top-level module or package.

    None if the module is not loaded, or has no file.
    """
    loaded = sys.modules.get(module)
    file: str | None = getattr(loaded, "__file__", None)
    if file is None:
        return None
    depth, parents = module.count(".") + hasattr(loaded, "__path__"), Path(file).absolute().parents
    return parents[depth] if depth < len(parents) else None
