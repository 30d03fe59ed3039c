"""Tables of the benchmark: a folder of Parquet files each, or of lines of JSON, which do not say their columns."""

from pathlib import Path
from typing import TYPE_CHECKING

from mixedmode_bench.events import FLIGHTS, FLIGHTS_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

#: {table of lines of JSON: its columns as Spark DDL}
LINES = {FLIGHTS: FLIGHTS_DDL}


def files_in(table: Path) -> list[Path]:
    """The files of a table, in their order."""
    return sorted(table.glob("*.json" if table.name in LINES else "*.parquet"))


def schema_of(session: "SparkSession", table: Path) -> "StructType":
    """The columns of a table, as a user would write them down."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - only Spark's contestants need it

    lines = LINES.get(table.name)
    if lines is None:
        return session.read.parquet(str(table)).schema
    found = StructType.fromDDL(lines)
    assert isinstance(found, StructType), lines
    return found


def frame_of(reader: "DataFrameReader | DataStreamReader", table: Path, schema: "StructType") -> "DataFrame":
    """A table as Spark reads it."""
    # a record that does not fit stops the query, as it stops a job of this program
    lines = reader.format("json").option("mode", "FAILFAST") if table.name in LINES else reader.format("parquet")
    return lines.schema(schema).load(str(table))


def quoted(path: Path) -> str:
    """A path as a literal of SQL."""
    text = str(path).replace("'", "''")
    return f"'{text}'"


def relation_of(table: Path, more: tuple[Path, ...] = ()) -> str:
    """A table as DuckDB reads it, with files that are elsewhere."""
    listed = ", ".join(quoted(file) for file in (*files_in(table), *more))
    if table.name not in LINES:
        return f"read_parquet([{listed}])"
    columns = ", ".join("{}: '{}'".format(*column.split()) for column in LINES[table.name].split(", "))
    return f"read_json([{listed}], format = 'newline_delimited', columns = {{{columns}}})"
