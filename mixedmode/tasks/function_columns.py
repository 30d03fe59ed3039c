"""Calls functions of the job with columns of Arrow, as Spark's Python workers call them.

A function of records gets values of Python, which are made of a column at once; its results become a column at once. A
function of batches gets the columns. Values, NULL and errors are those of Spark's own way to the function and back.
What that way does in another manner raises LeftToSparkError: days and times beyond those of Python, text that is not
UTF-8, a decimal that has to be rounded, a batch of another type than the declared one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types
from pyspark.sql.types import DataType, FloatType, TimestampNTZType, TimestampType

from mixedmode.errors import LeftToSparkError
from mixedmode.expressions import Value, type_named
from mixedmode.tasks.sql_functions import SqlFunction

__all__ = ["BatchCalls", "RecordCalls", "arrow_type"]

#: a half of a surrogate pair, which is no text in UTF-8, and what the JVM makes of it
_HALF = re.compile("[\ud800-\udfff]")
_NO_CHARACTER = "\ufffd"


def arrow_type(data_type: DataType) -> pa.DataType | None:
    """Return the type of a column with values of one of Spark's types; see `type_named`."""
    return type_named(data_type.simpleString())


@dataclass(frozen=True, slots=True)
class RecordCalls:
    """Functions that are called with one record. Each one but the first gets the result of the one before it.

    Its results may be of all types that `arrow_type` knows. `is_partial`: see ColumnFunction. `is_of_batches`: Spark
    itself makes columns of Arrow of the results, so a half of a surrogate pair is an error there.
    """

    functions: tuple[SqlFunction, ...]
    is_partial: bool
    is_of_batches: bool = False

    def __call__(self, given: Sequence[Value]) -> pa.Array:
        """Return the results; see ColumnFunction."""
        function, data_type = self.functions[0], self.functions[-1].result_type
        assert data_type is not None, "a function of batches"
        rows = zip(*map(_values_of, given), strict=False)  # constants repeat without an end
        results = function.of_rows(rows) if len(self.functions) == 1 else list(map(self._chained, rows))
        try:
            return _column_of(results, data_type)
        except UnicodeEncodeError as error:
            if self.is_of_batches:
                msg = f"a text with a half of a character, of {function.function.label}: {error}"
                raise LeftToSparkError(msg) from error
            texts = (None if one is None else _HALF.sub(_NO_CHARACTER, one) for one in results)
            return pa.array(texts, pa.string())

    def _chained(self, row: tuple[Any, ...]) -> Any:
        first, *others = self.functions
        result = first(*row)
        for function in others:
            result = function(result)
        return result


@dataclass(frozen=True, slots=True)
class BatchCalls:
    """Functions that are called with columns, of at most `rows_max` records.

    Each one but the first gets the result of the one before it. `data_type`: of the last result. `is_pandas`: the
    columns are series of pandas, else arrays of Arrow.
    """

    functions: tuple[SqlFunction, ...]
    data_type: pa.DataType
    rows_max: int
    is_pandas: bool = False
    is_partial: bool = True

    def __call__(self, given: Sequence[Value]) -> pa.Array:
        """Return the results; see ColumnFunction."""
        count = max(len(one) for one in given if isinstance(one, pa.Array))
        whole = [pa.repeat(one, count) if isinstance(one, pa.Scalar) else one for one in given]
        parts = range(0, count, self.rows_max)
        found = [self._part([one.slice(first, self.rows_max) for one in whole]) for first in parts]
        return found[0] if len(found) == 1 else pa.concat_arrays(found)

    def _part(self, columns: list[pa.Array]) -> pa.Array:
        count = len(columns[0])
        # a function may take the buffers of an array, and Spark's arrays begin where their buffers do
        arrays = [pa.concat_arrays([one, one.slice(0, 0)]) if one.offset else one for one in columns]
        first, *others = self.functions
        result = first(*(one.to_pandas() for one in arrays)) if self.is_pandas else first(*arrays)
        for function in others:
            result = function(result)
        if self.is_pandas:
            result = _array_of(result, self.data_type)
        if not isinstance(result, pa.Array) or result.type != self.data_type or len(result) != count:
            msg = f"a result that Spark has to convert, or to refuse, of {self.functions[-1].function.label}"
            raise LeftToSparkError(msg)
        return result


def _array_of(result: Any, wanted: pa.DataType) -> pa.Array | None:
    """Return a series of pandas as an array, NULL for NaN as in Spark; None if its values are not plainly of a type."""
    import pandas as pd  # noqa: PLC0415 - it takes long, and few jobs need it

    if not isinstance(result, pd.Series):
        return None
    if types.is_string(wanted):
        is_plain = result.dtype == np.object_ and pd.api.types.infer_dtype(result, skipna=True) in ("string", "empty")
    else:
        is_plain = result.dtype == wanted.to_pandas_dtype()
    try:
        return pa.Array.from_pandas(result, mask=result.isnull(), type=wanted) if is_plain else None
    except UnicodeEncodeError:  # a half of a surrogate pair
        return None


def _values_of(given: Value) -> Iterable[Any]:
    """Return a column as values of Python; a constant repeats."""
    if isinstance(given, pa.Scalar):
        return repeat(*_values_of(pa.repeat(given, 1)))
    try:
        if not types.is_timestamp(given.type):
            return list(given.to_pylist())
        of_spark = TimestampType() if given.type.tz else TimestampNTZType()
        return list(map(of_spark.fromInternal, given.cast(pa.int64()).to_pylist()))
    except (ValueError, OverflowError, OSError) as error:  # a day or a time beyond those of Python; text that is none
        msg = f"an argument of a function that Python has no value for: {error}"
        raise LeftToSparkError(msg) from error


def _column_of(results: list[Any], data_type: DataType) -> pa.Array:
    """Return results, each of which is a value of the type or None, as a column."""
    wanted = arrow_type(data_type)
    assert wanted is not None, data_type
    try:
        if isinstance(data_type, TimestampType | TimestampNTZType):
            return pa.array(list(map(data_type.toInternal, results)), pa.int64()).view(wanted)
        if isinstance(data_type, FloatType):
            return pa.array(results, pa.float64()).cast(wanted, safe=False)
        return pa.array(results, wanted)
    except UnicodeEncodeError:
        raise
    except (ValueError, OverflowError, OSError) as error:  # a time that its zone puts beyond those of Python; a decimal
        msg = f"a result of a function that Spark has to convert: {error}"
        raise LeftToSparkError(msg) from error
