"""Functions of Python that SQL calls, as Spark's Python workers get them.

A function is imported by its name, unless its module has functions that PySpark's decorators have made: a decorator
needs a session, and a worker has none. The functions of such a module are pickled by value. Both kinds may use modules
from the folder of the job.

Spark makes NULL of a result that is not of the declared type, or text of it. So the results of functions that are
called per record are checked, and another type is an error, as is an exception of the function
(spark/custom_errors.py).
"""

import datetime as dt
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.classes import object_named, put_first_on_path

__all__ = ["ImportedFunction", "MisfitError", "PickledFunction", "SqlFunction", "fitted", "is_decorated", "shipped"]

_SHORT = 200
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_FLOATS = (DoubleType, FloatType)
#: a double holds each whole number up to this one
_EXACT = 1 << 53
_CLASSES: dict[type[DataType], type | tuple[type, ...]] = {
    ArrayType: (list, tuple),
    BinaryType: (bytes, bytearray),
    BooleanType: bool,
    DateType: dt.date,
    DecimalType: Decimal,
    MapType: dict,
    StringType: str,
    TimestampNTZType: dt.datetime,
    TimestampType: dt.datetime,
    **dict.fromkeys(_BITS, int),
    **dict.fromkeys(_FLOATS, (float, int)),
}


#: classes of which every value is one of the type, so that no value has to be looked at
_PLAIN: dict[type[DataType], frozenset[type]] = {
    kind: frozenset({plain, type(None)})
    for kind, plain in (
        (BinaryType, bytes),
        (BooleanType, bool),
        (DateType, dt.date),
        (DecimalType, Decimal),
        (DoubleType, float),
        (FloatType, float),
        (StringType, str),
        (TimestampNTZType, dt.datetime),
        (TimestampType, dt.datetime),
    )
}


class MisfitError(TypeError):
    """A result of a function that is not of its declared type."""


@dataclass(frozen=True, slots=True)
class ImportedFunction:
    """The function `module:name`. `folder` is put on sys.path to import the module."""

    module: str
    name: str
    folder: str | None

    @property
    def label(self) -> str:
        """`module:name`, for messages."""
        return f"{self.module}:{self.name}"

    def load(self) -> Any:
        """Return what the name stands for. Raise InvalidJobError if it cannot be imported, or is no function."""
        found = object_named(self.module, self.name, self.folder, noun="function for SQL", key="function")
        if not callable(found) or isinstance(found, type):
            msg = (
                "this is no function. Name one, which may be decorated with udf, pandas_udf or arrow_udf of PySpark. "
                f"function={self.label}, found={found!r}"
            )
            raise InvalidJobError(msg)
        return found


@dataclass(frozen=True, slots=True)
class PickledFunction:
    """A function as bytes. `folder` is put on sys.path before they are read. `label`: for messages."""

    pickled: bytes
    folder: str | None
    label: str

    def load(self) -> Any:
        """Return the function."""
        if self.folder is not None:
            put_first_on_path(self.folder)
        return pickle.loads(self.pickled)  # noqa: S301 - the job's own code, as all of it


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """The function that Spark calls. `result_type`: of a result for one record; None if Spark checks results itself."""

    function: ImportedFunction | PickledFunction
    result_type: DataType | None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function. Raise InvalidJobError, with the line, if it raises or returns another type."""
        try:
            result = _loaded(self.function)(*arguments)
            if self.result_type is not None:
                return fitted(result, self.result_type)
        except Exception as error:  # whatever the function raises
            raise self._explained(error, arguments) from error
        return self._each(result) if isinstance(result, Iterator) else result

    def of_rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the results for the arguments of each record, as calls one by one would.

        Raise the error of the first record that has one.
        """
        function, every, results = _loaded(self.function), list(rows), list[Any]()
        try:
            for row in every:
                results.append(function(*row))
        except Exception as error:  # whatever the function raises
            self._fitted(results, every)
            raise self._explained(error, every[len(results)]) from error
        return self._fitted(results, every)

    def _fitted(self, results: list[Any], called: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return results as values of their type. Raise InvalidJobError for the first one of another type."""
        data_type = self.result_type
        assert data_type is not None, "a function of batches"
        if set(map(type, results)) <= _PLAIN.get(type(data_type), frozenset()):
            return results
        found = []
        for result, arguments in zip(results, called, strict=False):
            try:
                found.append(fitted(result, data_type))
            except MisfitError as error:
                raise self._explained(error, arguments) from error
        return found

    def _each(self, results: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from results
        except Exception as error:  # whatever the function raises
            raise self._explained(error, ()) from error

    def _explained(self, error: Exception, arguments: tuple[Any, ...]) -> MixedmodeError:
        if isinstance(error, MixedmodeError):
            return error
        at = ""
        if isinstance(error, MisfitError):
            problem = f"returned what is not of its type: {error}"
        else:
            problem = " ".join(f"raised {type(error).__name__}: {error}".split())
            frames = traceback.extract_tb(error.__traceback__)
            frame = frames[min(1, len(frames) - 1)]  # the first is the call above, the second the function
            at = f", at={frame.filename}:{frame.lineno} in {frame.name}"
        given = "" if self.result_type is None else f", arguments={_short(arguments)}"
        msg = (
            f"a function that SQL calls {problem}. Nothing of this epoch is committed. Correct the function, or leave "
            "such values out in the SQL before it is called, and start again. "
            f"function={self.function.label}{at}{given}"
        )
        return InvalidJobError(msg)


def shipped(function: ImportedFunction) -> ImportedFunction | PickledFunction:
    """Return a function in the form in which a worker can load it. Raise InvalidJobError if there is none."""
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
            f"function={function.label}, cause={error}"
        )
        raise InvalidJobError(msg) from error
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return PickledFunction(pickled, function.folder, function.label)


def is_decorated(found: object) -> bool:
    """Return whether one of PySpark's decorators has made this function."""
    return hasattr(found, "evalType") and hasattr(found, "func")


def fitted(value: Any, data_type: DataType) -> Any:
    """Return a result as a value of its type. Raise MisfitError if it is of another type.

    NULL is of every type. A whole number is a double if it is one exactly. A scalar of numpy counts as the value that
    it holds, as does a value of a class that derives from int, str or bytes. Structs are passed on: Spark has errors of
    its own for them.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    if not _is_of(value, data_type):
        msg = f"{_short(value)} ({type(value).__name__}) is no {data_type.simpleString()}"
        raise MisfitError(msg)
    if isinstance(data_type, ArrayType):
        return [fitted(one, data_type.elementType) for one in value]
    if isinstance(data_type, MapType):
        return {fitted(key, data_type.keyType): fitted(one, data_type.valueType) for key, one in value.items()}
    return float(value) if type(data_type) in _FLOATS else _plain(value)


def _plain(value: Any) -> Any:
    """Return the int, str or bytes that a value of a derived class holds; any other value as it is."""
    match value:
        case bool():
            return value
        case int():
            return int(value)
        case str():
            return str.__str__(value)  # not that of an Enum, which may be its name
        case bytes():
            return bytes(value)
    return value


def _is_of(value: Any, data_type: DataType) -> bool:
    kind: type[DataType] = type(data_type)
    if kind not in _CLASSES:
        return True
    if isinstance(value, bool):
        return kind is BooleanType
    if not isinstance(value, _CLASSES[kind]):
        return False
    if kind is DateType:
        return not isinstance(value, dt.datetime)
    if not isinstance(value, int):
        return True
    if kind in _FLOATS:
        return abs(value) <= _EXACT
    half = 1 << _BITS[kind] - 1
    return -half <= value < half


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."


@cache
def _loaded(function: ImportedFunction | PickledFunction) -> Callable[..., Any]:
    found: Callable[..., Any] = function.load()
    return found
