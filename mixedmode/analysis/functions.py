"""Registers the functions of a job, so that its SQL can call them by their names.

A function is a plain one, whose result type is its annotation, or one that is decorated with `udf`, `pandas_udf` or
`arrow_udf` of PySpark, and so has its type and its kind. tasks/sql_functions.py says how tasks get it.
"""

import datetime as dt
import types
import typing
from collections.abc import Mapping
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

from mixedmode.config.functions import FunctionSpec
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where
from mixedmode.tasks.sql_functions import ImportedFunction, SqlFunction, is_decorated, shipped

__all__ = ["register_functions"]

_TYPES: Mapping[Any, DataType] = {
    bool: BooleanType(),
    bytes: BinaryType(),
    dt.date: DateType(),
    dt.datetime: TimestampType(),
    float: DoubleType(),
    int: LongType(),
    str: StringType(),
}
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


def register_functions(session: SparkSession, functions: Mapping[str, FunctionSpec], where: Where) -> None:
    """Make the functions known to the session, as temporary ones. Raise InvalidJobError for a wrong one."""
    for name, function in functions.items():
        place = where("functions", name)
        if _is_builtin(session, name):
            msg = f"{place}: Spark has a function of this name, which SQL would no longer find. Choose another."
            raise InvalidJobError(msg)
        module, _, attribute = function.function.partition(":")
        imported = ImportedFunction(module, attribute, function.folder)
        try:
            registered = _with_type(imported)
        except InvalidJobError as error:
            msg = f"{place}: {error}"
            raise InvalidJobError(msg) from error
        session.udf.register(name, registered)


def _with_type(imported: ImportedFunction) -> UserDefinedFunction:
    """Return the function as one of Spark's. Raise InvalidJobError if it cannot be one."""
    found, name = imported.load(), imported.name
    if not is_decorated(found):
        result_type = _result_type(found)
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


def _result_type(function: Any) -> DataType:
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
            f"function={function.__module__}:{function.__qualname__}, annotation={annotation}"
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
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark cannot tell built-in functions from temporary ones
    catalyst = jvm.org.apache.spark.sql.catalyst
    return bool(catalyst.analysis.FunctionRegistry.builtin().functionExists(catalyst.FunctionIdentifier(name)))
