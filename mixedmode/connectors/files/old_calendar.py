"""Parquet files with dates and timestamps of the calendar that Spark used before version 3.

Spark 2 counted days in the Julian calendar before 1582-10-15, and took local mean time before about 1900. Later
versions do so on request. Spark's reader recognises such files by their metadata, and converts the values; Arrow does
not. So a file that may have such values is left to Spark.

Source: https://spark.apache.org/docs/latest/sql-migration-guide.html, "Upgrading from Spark SQL 2.4 to 3.0"
"""

from collections.abc import Iterable, Iterator

import pyarrow.parquet as pq

from mixedmode.errors import LeftToSparkError
from mixedmode.plan.job_plan import ReadColumn

__all__ = ["check_calendar"]

_PREFIX = b"org.apache.spark."
_VERSION, _LEGACY, _LEGACY_INT96 = _PREFIX + b"version", _PREFIX + b"legacyDateTime", _PREFIX + b"legacyINT96"
#: the first versions of Spark that write the new calendar, unless a file says otherwise
_NEW_CALENDAR, _NEW_INT96 = b"3.0.0", b"3.1.0"
#: from 1900-01-01 on, all calendars and clocks agree
_AGREED_DAY = -25_567
_PER_DAY = {"milliseconds": 86_400_000, "microseconds": 86_400_000_000, "nanoseconds": 86_400_000_000_000}


def check_calendar(file: pq.ParquetFile, columns: Iterable[ReadColumn], path: str) -> None:
    """Raise LeftToSparkError if a column that is read may have times of the old calendar."""
    metadata = file.schema_arrow.metadata or {}
    version = metadata.get(_VERSION)
    if version is None:
        return
    is_old = version < _NEW_CALENDAR or _LEGACY in metadata
    is_old_int96 = version < _NEW_INT96 or _LEGACY_INT96 in metadata
    if not (is_old or is_old_int96):
        return
    read = {column.source.lower() for column in columns}
    for number in range(len(file.schema)):
        column = file.schema.column(number)
        has_old = is_old_int96 if column.physical_type == "INT96" else is_old
        per_day = _values_per_day(column)
        if has_old and per_day and column.path.lower() in read and _may_be_early(file, number, per_day):
            msg = f"times of a former calendar, file={path}, column={column.name}, written_by=Spark {version.decode()}"
            raise LeftToSparkError(msg)


def _values_per_day(column: pq.ColumnSchema) -> int | None:
    """Return the number of values of a column in a day; None if it has no dates or timestamps."""
    kind = column.logical_type.type
    if kind == "DATE" or column.physical_type == "INT96":  # those of INT96 have no statistics
        return 1
    unit = next((unit for unit in _PER_DAY if unit in str(column.logical_type)), None)
    return _PER_DAY[unit] if kind == "TIMESTAMP" and unit is not None else None


def _may_be_early(file: pq.ParquetFile, number: int, per_day: int) -> bool:
    """Return whether a column may have a value before the calendars agree, by its statistics."""
    return any(least is None or least < _AGREED_DAY * per_day for least in _least_values(file.metadata, number))


def _least_values(metadata: pq.FileMetaData, number: int) -> Iterator[int | None]:
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group).column(number).statistics
        is_null = found is not None and found.has_null_count and found.null_count == metadata.row_group(group).num_rows
        if not is_null:
            is_known = found is not None and found.has_min_max and found.physical_type != "INT96"
            yield found.min_raw if is_known else None
