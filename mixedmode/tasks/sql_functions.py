"""Functions of Python that SQL calls, as Spark's Python workers get them.

A function is imported by its name, unless its module has functions that PySpark's decorators have made: a decorator
needs a session, and a worker has none. The functions of such a module are pickled by value. Both kinds may use modules
from the folder of the job.
"""

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark import cloudpickle

from mixedmode.errors import InvalidJobError
from mixedmode.operators.classes import object_named, put_first_on_path

__all__ = ["ImportedFunction", "PickledFunction", "is_decorated", "shipped"]


@dataclass(frozen=True, slots=True)
class ImportedFunction:
    """The function `module:name`. `folder` is put on sys.path to import the module."""

    module: str
    name: str
    folder: str | None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return _imported(self)(*arguments)

    def load(self) -> Any:
        """Return what the name stands for. Raise InvalidJobError if it cannot be imported, or is no function."""
        found = object_named(self.module, self.name, self.folder, noun="function for SQL", key="function")
        if not callable(found) or isinstance(found, type):
            msg = (
                "this is no function. Name one, which may be decorated with udf, pandas_udf or arrow_udf of PySpark. "
                f"function={self.module}:{self.name}, found={'nothing' if found is None else repr(found)}"
            )
            raise InvalidJobError(msg)
        return found


@dataclass(frozen=True, slots=True)
class PickledFunction:
    """A function as bytes. `folder` is put on sys.path before they are read."""

    pickled: bytes
    folder: str | None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return _unpickled(self)(*arguments)


def shipped(function: ImportedFunction) -> ImportedFunction | PickledFunction:
    """Return a function in the form in which a worker can call it. Raise InvalidJobError if there is none."""
    called, module = function.load(), sys.modules[function.module]
    if not any(map(is_decorated, vars(module).values())):
        return function
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        pickled: bytes = cloudpickle.dumps(called.func if is_decorated(called) else called)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever the objects that the function refers to raise
        msg = (
            "the function cannot be sent to tasks. Its module has functions with a decorator of PySpark, so it is "
            "pickled with all that it uses of its module. Move it to a module without such functions. "
            f"function={function.module}:{function.name}, cause={error}"
        )
        raise InvalidJobError(msg) from error
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return PickledFunction(pickled, function.folder)


def is_decorated(found: object) -> bool:
    """Return whether one of PySpark's decorators has made this function."""
    return hasattr(found, "evalType") and hasattr(found, "func")


@cache
def _imported(function: ImportedFunction) -> Callable[..., Any]:
    found: Callable[..., Any] = function.load()
    return found


@cache
def _unpickled(function: PickledFunction) -> Callable[..., Any]:
    if function.folder is not None:
        put_first_on_path(function.folder)
    found: Callable[..., Any] = pickle.loads(function.pickled)  # noqa: S301 - the job's own code, as all of it
    return found
