"""The columns of a file source: those that the job declares, or those that Spark infers from the files.

Spark takes the columns of a folder of Parquet files from the file whose path sorts first. It reads the footer in a job
of its own, which is a large part of a short start. So the footer of a plain folder is read here, without a Spark job.
Types that Spark maps without regard to any setting are mapped here. Everything else is left to Spark: nested columns,
partition folders, options, summary files. The rules are those of Spark's ParquetUtils.inferSchema and
ParquetToSparkSchemaConverter.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
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
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mixedmode.connectors.files.local_inputs import is_hidden, local_input
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.sources.source import parse_ddl
from mixedmode.spark.errors import spark_text

_MERGES_SCHEMAS = "spark.sql.parquet.mergeSchema"

#: of the footer of a file that Spark has written: its columns, which Spark prefers to the file's own types
_WRITTEN_BY_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
_PLAIN: Mapping[str, DataType] = {"BOOLEAN": BooleanType(), "FLOAT": FloatType(), "DOUBLE": DoubleType()}
_INTEGERS: Mapping[int, DataType] = {8: ByteType(), 16: ShortType(), 32: IntegerType(), 64: LongType()}
#: types that need nothing but their name; a string with another collation has it in the metadata of its field
_NOTED = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
    *(StringType, BinaryType, DateType, TimestampType, TimestampNTZType),
)


def columns_of(session: SparkSession, source: FileSourceSpec, path: str, *, where: str) -> StructType:
    """Return the columns of a source: declared, or read from its files. Raise InvalidJobError if they cannot be read.

    path: that of the source, as Spark reads it.
    """
    if source.schema_ddl is not None:
        return parse_ddl(source.schema_ddl, where=where)
    if source.format == "parquet" and not source.options and session.conf.get(_MERGES_SCHEMAS, "false") == "false":
        known = schema_of_folder(source.path)
        if known is not None:
            return known
    try:
        return session.read.format(source.format).options(**source.options).load(path).schema
    except AnalysisException as error:
        msg = (
            f"{where}: the columns cannot be read from the files, because there are none yet or they are not what the "
            f"format says. Add `schema` to the source, or put a file there. cause={spark_text(error)}"
        )
        raise InvalidJobError(msg) from error


def schema_of_folder(path: str) -> StructType | None:
    """Return the columns that Spark would infer for a source's path with its default settings; None: ask Spark."""
    if "://" in path:
        return None
    found = local_input(path)
    folder = Path(found.literal)
    if found.has_pattern or not folder.is_dir():
        return None
    first = _first_file(folder)
    if first is None:
        return None
    try:
        footer = pq.read_metadata(first)
    except (pa.ArrowException, OSError):
        return None  # Spark's message says what is wrong with the file
    return schema_of_footer(footer)


def schema_of_footer(footer: pq.FileMetaData) -> StructType | None:
    """Return the columns of a file as Spark maps them; None if it has a type that is left to Spark."""
    written = (footer.metadata or {}).get(_WRITTEN_BY_SPARK)
    if written is None:
        fields = [_field(footer.schema.column(number)) for number in range(footer.num_columns)]
    else:
        fields = [_plain_field(field) for field in StructType.fromJson(json.loads(written))]
    known = [field for field in fields if field is not None]
    if not known or len(known) < len(fields) or len({field.name.lower() for field in known}) < len(known):
        return None
    return StructType(known)


def _first_file(folder: Path) -> Path | None:
    """Return the file whose path sorts first in Java; None if the folder has folders or summary files."""
    children = list(folder.iterdir())
    if any(child.is_dir() or child.name in ("_metadata", "_common_metadata") for child in children):
        return None
    files = [child for child in children if not is_hidden(child.name)]
    return min(files, key=lambda file: file.name.encode("utf-16-be", "surrogatepass"), default=None)


def _field(column: Any) -> StructField | None:
    """Return a column of the top level; None for any other one, and for a type whose meaning a setting decides."""
    data_type = _type(column)
    if data_type is None or column.name != column.path or "." in column.name or column.max_repetition_level > 0:
        return None
    return StructField(column.name, data_type)


def _plain_field(field: StructField) -> StructField | None:
    """Return a column that Spark has noted, without NOT NULL; None if it is nested or has more to it than its type."""
    is_plain = isinstance(field.dataType, _NOTED) and not field.metadata and "." not in field.name
    return StructField(field.name, field.dataType) if is_plain else None


def _type(column: Any) -> DataType | None:
    kind = json.loads(column.logical_type.to_json())
    match column.physical_type, kind:
        case "BOOLEAN" | "FLOAT" | "DOUBLE", {"Type": "None"}:
            return _PLAIN[column.physical_type]
        case "INT32" | "INT64", {"Type": "None"}:
            return _INTEGERS[int(column.physical_type[3:])]
        case "INT32" | "INT64", {"Type": "Int", "isSigned": True, "bitWidth": bits}:
            return _INTEGERS[bits]
        case "BYTE_ARRAY", {"Type": "String"}:
            return StringType()
        case "INT32", {"Type": "Date"}:
            return DateType()
        case "INT64", {"Type": "Timestamp", "isAdjustedToUTC": True, "timeUnit": "milliseconds" | "microseconds"}:
            return TimestampType()
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", {"Type": "Decimal", "precision": precision, "scale": scale}:
            length = {"INT32": 4, "INT64": 8}.get(column.physical_type, column.length)
            return DecimalType(precision, scale) if precision <= _digits(length) else None
        case _:
            return None


def _digits(length: int) -> int:
    """Return the digits of which a number of so many bytes can hold every value; at most those that Spark has."""
    return min(38, len(str(2 ** (8 * length - 1) - 1)) - 1)
