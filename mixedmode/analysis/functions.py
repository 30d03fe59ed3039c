"""Registers the functions of a job, so that its SQL can call them by their names.

A function is a plain one, whose result type is its annotation, or has a decorator of PySpark: `udf`, `pandas_udf` or
`arrow_udf`, which names its type and its kind. tasks/sql_functions.py says how tasks get it.
"""

import datetime as dt
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from mixedmode.analysis.dimensions import mentions
from mixedmode.analysis.problems import collecting
from mixedmode.config import JobParts
from mixedmode.config.document import Path
from mixedmode.config.fields import Section
from mixedmode.config.functions import FunctionSpec
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.plan.keyed_operators import Where
from mixedmode.spark.java_classes import java_class
from mixedmode.tasks.sql_functions import ImportedFunction, SqlFunction, is_decorated, shipped

__all__ = ["register_functions", "without_calls"]

_TYPES: Mapping[Any, DataType] = {
    bool: BooleanType(),
    bytes: BinaryType(),
    dt.date: DateType(),
    dt.datetime: TimestampType(),
    float: DoubleType(),
    int: LongType(),
    str: StringType(),
}
_CATALYST = "org.apache.spark.sql.catalyst"
#: kinds of functions that are called with one record
_PER_RECORD = frozenset({PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF})
#: kinds of functions that make one value of the values of one record
_ONE_VALUE = _PER_RECORD | frozenset(
    getattr(PythonEvalType, name)
    for name in (
        "SQL_SCALAR_PANDAS_UDF",
        "SQL_SCALAR_PANDAS_ITER_UDF",
        "SQL_SCALAR_ARROW_UDF",
        "SQL_SCALAR_ARROW_ITER_UDF",
    )
    if hasattr(PythonEvalType, name)
)


def register_functions(
    session: SparkSession, functions: Mapping[str, FunctionSpec], where: Where, found: list[MixedmodeError]
) -> list[str]:
    """Make the functions known to the session, as temporary ones. Return the names of the wrong ones.

    Append their mistakes to `found`.
    """
    wrong = []
    for name, function in functions.items():
        before = len(found)
        with collecting(found, where=where("functions", name)):
            _register(session, name, function)
        wrong += [name] * (len(found) > before)
    return wrong


def without_calls(parts: JobParts, functions: Sequence[str]) -> JobParts:
    """Return the parts of a job without the sources and steps whose SQL may call one of these functions."""
    sections: dict[Path, Section] = {("sources", name): source for name, source in parts.spec.sources.items()}
    sections |= {("steps", index): step for index, step in enumerate(parts.steps) if step is not None}
    texts = {path: section.model_dump_json().replace("\\n", " ") for path, section in sections.items()}
    return parts.without([path for path, text in texts.items() if mentions(text, functions)])


def _register(session: SparkSession, name: str, function: FunctionSpec) -> None:
    if _is_builtin(session, name):
        msg = "Spark has a function of this name, which SQL would no longer find. Choose another."
        raise InvalidJobError(msg)
    module, _, attribute = function.function.partition(":")
    session.udf.register(name, _with_type(ImportedFunction(module, attribute, function.folder)))


def _with_type(imported: ImportedFunction) -> UserDefinedFunction:
    """Return the function as one of Spark's. Raise InvalidJobError if it cannot be one."""
    found, name = imported.load(), imported.name
    if not is_decorated(found):
        result_type = _result_type(found, imported.label)
        return UserDefinedFunction(SqlFunction(shipped(imported), result_type), result_type, name)
    if found.evalType not in _ONE_VALUE:
        msg = (
            "this function aggregates or makes tables, and SQL here computes one value for each record. Use an "
            f"aggregate, or a process step. function={imported.label}"
        )
        raise InvalidJobError(msg)
    try:
        result_type = found.returnType
    except (PySparkException, Py4JError) as error:
        msg = f"the result type of the function cannot be read: {error}. function={imported.label}"
        raise InvalidJobError(msg) from error
    checked = result_type if found.evalType in _PER_RECORD else None
    return UserDefinedFunction(
        SqlFunction(shipped(imported), checked),
        result_type,
        name,
        evalType=found.evalType,
        deterministic=found.deterministic,
    )


def _result_type(function: Any, label: str) -> DataType:
    """Return the type of a plain function's result, from its annotation. Raise InvalidJobError if there is none."""
    try:
        annotation = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        annotation = None
    found = None if annotation is None else _spark_type(annotation)
    if found is None:
        known = ", ".join(each.__name__ for each in _TYPES)
        msg = (
            f"the type of the function's result is not known. Annotate it with one of {known}, or a list or dict of "
            "them; or decorate the function with pyspark.sql.functions.udf and its type. "
            f"function={label}, annotation={annotation}"
        )
        raise InvalidJobError(msg)
    return found


def _spark_type(annotation: Any) -> DataType | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        given = [each for each in arguments if each is not type(None)]
        return _spark_type(given[0]) if len(given) == 1 else None
    inner = [_spark_type(each) for each in arguments]
    if origin is list and len(inner) == 1 and inner[0] is not None:
        return ArrayType(inner[0])
    if origin is dict and len(inner) == 2 and inner[0] is not None and inner[1] is not None:
        return MapType(inner[0], inner[1])
    return _TYPES.get(annotation)


def _is_builtin(session: SparkSession, name: str) -> bool:
    registry = java_class(session.sparkContext, f"{_CATALYST}.analysis.FunctionRegistry").builtin()
    identifier = java_class(session.sparkContext, f"{_CATALYST}.FunctionIdentifier")
    return bool(registry.functionExists(identifier(name)))
