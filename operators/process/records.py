"""Conversion of Arrow columns to the records that a function sees: dictionaries of Python values.

    tinyint .. bigint int | double, float float | decimal Decimal | string str | binary bytes | boolean bool
    date datetime.date | timestamp aware datetime, UTC | timestamp_ntz naive datetime
    array list | map list of (key, value) | struct dict | NULL None

Arrow can convert all of these, but needs microseconds per date or time. So columns of dates and times are converted
here.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError

_DAY_ZERO = date(1970, 1, 1).toordinal()


def python_values(column: pa.Array) -> list[Any]:
    """Return the n values of a column as Python objects. Raise InvalidJobError for times beyond Python's range."""
    try:
        if pa.types.is_date32(column.type):
            make = date.fromordinal
            days = column.cast(pa.int32()).to_pylist()
            return [None if day is None else make(day + _DAY_ZERO) for day in days]
        if _is_time(column.type):
            return _datetimes(column)
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError) as error:
        msg = (
            "a record has a date or a time that Python cannot hold, before the year 1 or after 9999, so no function "
            f"can be given it. Filter such records out in a sql step, or cast the column to bigint. type={column.type}"
        )
        raise InvalidJobError(msg) from error


def check_python_times(columns: Sequence[pa.Array]) -> None:
    """Raise InvalidJobError if one of these columns has a date or time beyond Python's range."""
    for column in columns:
        if pa.types.is_date32(column.type) or _is_time(column.type):
            numbers = _integers(column)
            bounds = pc.min_max(numbers).as_py()
            python_values(pa.array([bounds["min"], bounds["max"]], numbers.type).view(column.type))


def python_records(columns: Sequence[pa.Array], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one dictionary per row, with the keys in the order of `names`; columns are (n,) each."""
    slow = [i for i, column in enumerate(columns) if pa.types.is_date32(column.type) or _is_time(column.type)]
    plain = [_integers(column) if i in slow else column for i, column in enumerate(columns)]
    records: list[dict[str, Any]] = pa.StructArray.from_arrays(plain, names=list(names)).to_pylist()
    for i in slow:
        name = names[i]
        for record, value in zip(records, python_values(columns[i]), strict=True):
            record[name] = value
    return records


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(data_type)) and data_type.unit == "us"


def _integers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())


def _datetimes(column: pa.Array) -> list[datetime | None]:
    epoch = datetime(1970, 1, 1, tzinfo=None if column.type.tz is None else UTC)
    make, values = timedelta, column.cast(pa.int64()).to_pylist()
    return [None if value is None else epoch + make(0, 0, value) for value in values]
