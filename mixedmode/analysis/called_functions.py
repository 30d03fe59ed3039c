"""Decides which calls of the job's functions map tasks compute on Arrow.

A function is found in the command that Spark would send to its own Python workers. So it is the function that SQL
calls, in the form in which a task can load it. tasks/function_columns.py calls it.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, DoubleType, IntegralType, StringType
from pyspark.util import PythonEvalType

from mixedmode.analysis.catalyst_objects import items_of, kind_of
from mixedmode.expressions import FUNCTION_CALL, Column, ColumnFunction, Literal, Node
from mixedmode.tasks.function_columns import BatchCalls, RecordCalls, arrow_type
from mixedmode.tasks.sql_functions import SqlFunction

__all__ = ["NotCalledError", "chain_of", "function_of"]

_Java = Any  # an object of the JVM

_ROWS_MAX = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = 2**31 - 1
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
_ZONE = "spark.sql.session.timeZone"
_EXTENSION_TYPES = "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"
_PER_RECORD, _IN_BATCHES = PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF
_ARROW: int | None = getattr(PythonEvalType, "SQL_SCALAR_ARROW_UDF", None)
_PANDAS = PythonEvalType.SQL_SCALAR_PANDAS_UDF


class NotCalledError(Exception):
    """Only Spark calls a function. The text says why, as in `only Spark computes f(x): its ...`."""


def chain_of(found: _Java) -> list[_Java]:
    """Return a call, and before it those that Spark calls together with it: f and g of g(f(x)).

    Spark hands the result of f to g as it is, if f is the only argument of g, and both are of the same kind.
    """
    chain = [found]
    while True:
        children = list(items_of(chain[0].children()))
        if len(children) != 1 or kind_of(children[0]) != FUNCTION_CALL or children[0].evalType() != found.evalType():
            return chain
        chain.insert(0, children[0])


def function_of(session: SparkSession, chain: Sequence[_Java], arguments: Sequence[Node]) -> ColumnFunction:
    """Return the functions of a chain of calls as one. Raise NotCalledError if only Spark calls it.

    arguments: of the first.
    """
    functions, types_of_results = zip(*map(_sent, chain), strict=True)
    if not all(one.udfDeterministic() for one in chain):
        msg = "it may return another value each time"
        raise NotCalledError(msg)
    if not arguments:
        msg = "it has no argument"
        raise NotCalledError(msg)
    kind, result_type = chain[-1].evalType(), types_of_results[-1]
    result = arrow_type(result_type)
    if result is None:
        msg = f"its result is {result_type.simpleString()}"
        raise NotCalledError(msg)
    if kind in (_ARROW, _PANDAS):
        _check_columns(session, arguments)
        if kind == _PANDAS:
            _check_pandas(session, arguments, result)
        rows_max = int(session.conf.get(_ROWS_MAX) or 0)
        return BatchCalls(functions, result, rows_max if rows_max > 0 else _NO_LIMIT, is_pandas=kind == _PANDAS)
    if kind not in (_PER_RECORD, _IN_BATCHES):
        msg = "it is a function over an iterator of batches"
        raise NotCalledError(msg)
    for one in arguments:
        _check_argument(one, is_plain=kind == _IN_BATCHES)
    if kind == _IN_BATCHES and not isinstance(result_type, BooleanType | IntegralType | DoubleType | StringType):
        msg = f"its result is {result_type.simpleString()} of batches"
        raise NotCalledError(msg)
    is_partial = any(_is_left(one.data_type) for one in arguments) or _is_left(result, is_result=kind == _PER_RECORD)
    return RecordCalls(functions, is_partial, is_of_batches=kind == _IN_BATCHES)


def _sent(found: _Java) -> tuple[SqlFunction, DataType]:
    """Return what Spark sends to its workers for a call: the function, and the type of its result."""
    try:
        sent = cloudpickle.loads(bytes(found.func().command().unsafeArray()))
    except (Py4JError, RuntimeError, TypeError) as error:  # RuntimeError: more than a megabyte, which Spark broadcasts
        msg = "it cannot be read from Spark's plan"
        raise NotCalledError(msg) from error
    function, data_type = sent
    if not isinstance(function, SqlFunction):
        msg = "it is no function of the job"
        raise NotCalledError(msg)
    return function, data_type


def _check_argument(argument: Node, *, is_plain: bool) -> None:
    """Check that the values of an argument of a function of records are those that Spark makes.

    is_plain: Spark makes them of columns of Arrow, whose times are of another kind.
    """
    found = argument.data_type
    simple = (types.is_boolean, types.is_signed_integer, types.is_floating, types.is_string)
    timely = (types.is_date32, types.is_timestamp)
    is_known = any(one(found) for one in (simple if is_plain else (*simple, *timely)))
    # Spark's decimals have the digits of their type only where they come from a column
    if not is_known and not (types.is_decimal(found) and isinstance(argument, Column) and not is_plain):
        msg = f"an argument is {'a computed ' if types.is_decimal(found) else ''}{_name(found)}"
        raise NotCalledError(msg)


def _check_columns(session: SparkSession, arguments: Sequence[Node]) -> None:
    """Check that Spark's arrays have the types of ours."""
    if session.conf.get(_LARGE_TYPES) == "true":
        msg = f"{_LARGE_TYPES} is set"
        raise NotCalledError(msg)
    has_instants = any(types.is_timestamp(one.data_type) and one.data_type.tz for one in arguments)
    if has_instants and session.conf.get(_ZONE) != "UTC":
        msg = f"{_ZONE} is not UTC"
        raise NotCalledError(msg)


def _check_pandas(session: SparkSession, arguments: Sequence[Node], result: pa.DataType) -> None:
    """Check that the series of an argument does not depend on the other records of its batch, and those of Spark's.

    Whole numbers beside a NULL are floats, and booleans are objects.
    """
    if session.conf.get(_EXTENSION_TYPES, "false") == "true":
        msg = f"{_EXTENSION_TYPES} is set"
        raise NotCalledError(msg)
    for one in arguments:
        whole = types.is_boolean(one.data_type) or types.is_signed_integer(one.data_type)
        is_constant = isinstance(one, Literal) and one.value is not None and whole
        if not (types.is_floating(one.data_type) or types.is_string(one.data_type) or is_constant):
            msg = f"an argument is a series of {_name(one.data_type)}"
            raise NotCalledError(msg)
    simple = (types.is_boolean, types.is_signed_integer, types.is_floating, types.is_string)
    if not any(is_of(result) for is_of in simple):
        msg = f"its result is a series of {_name(result)}"
        raise NotCalledError(msg)


def _is_left(data_type: pa.DataType, *, is_result: bool = False) -> bool:
    """Return whether RecordCalls leaves some arguments, or some results, of a type to Spark."""
    if types.is_decimal(data_type):
        return is_result
    if types.is_date32(data_type) or types.is_string(data_type):  # each date of Python is one of Spark
        return not is_result
    return bool(types.is_timestamp(data_type))


def _name(data_type: pa.DataType) -> str:
    return "decimal" if types.is_decimal(data_type) else str(data_type)
