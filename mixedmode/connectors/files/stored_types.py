"""Parquet files whose columns have another type than the source says, where Spark reads them.

Spark's reader takes the numbers of a file as they are stored: 300 in a column of int32 is 44 as a tinyint, 65535 of
uint16 is -1 as a smallint, and a date is its number as a bigint. Tasks refuse such files when they read them
(parquet_files.py); here, the same rule is applied to the files of an epoch that Spark reads. Only the footers of local
files are read.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from mixedmode.connectors.files.file_blocks import FilePart
from mixedmode.connectors.files.json_files import files_found
from mixedmode.connectors.files.parquet_files import wrong_type
from mixedmode.errors import InvalidJobError
from mixedmode.spark.frames import arrow_fields

__all__ = ["check_stored_types"]


def check_stored_types(session: SparkSession, paths: Sequence[str], schema: StructType) -> None:
    """Raise InvalidJobError if one of these local files has a column whose values Spark would change."""
    fields = tuple(field for column in schema for field in _arrow_field(column))
    for path in files_found(session, paths, partial(_wrongly_typed, fields)):
        told = wrong_type(path, fields)
        if told is not None:
            raise InvalidJobError(told)


def _arrow_field(column: StructField) -> list[pa.Field]:
    """Return a column as an Arrow field; nothing for a type that Arrow lacks."""
    with suppress(PySparkException):
        return arrow_fields(StructType([column]))
    return []


def _wrongly_typed(fields: Sequence[pa.Field], parts: Sequence[FilePart]) -> Iterator[str]:
    """Yield the paths of files with a column of a wrong type. The first part of a file stands for all of it."""
    for part in parts:
        if part.begin == 0 and wrong_type(part.path, fields) is not None:
            yield part.path
