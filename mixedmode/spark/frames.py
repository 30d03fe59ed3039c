"""Helpers for Spark's frames: sql steps, schemas, quoted names, stand-ins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import AtomicType, DataType, StructType

from mixedmode.config.calls import named, quoted
from mixedmode.plan.reads import Reads
from mixedmode.spark.temporary_views import views

# Spark 4.1 has only timestamps in UTC, and no such parameter
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}

#: makes batches of batches in Spark's Python workers
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def relations_of(
    session: SparkSession, roots: Mapping[str, DataFrame], reads: Reads, tables: Mapping[str, DataFrame]
) -> list[DataFrame]:
    """Return the relations that a stage or an output reads.  roots: {name: frame} of all roots that sql reads.

    tables: {name: frame} of the dimensions. Rows of other readers, which Spark may be persisting, stay as they are.
    """
    made = dict(roots)
    for step in reads.sql:
        inputs = {name: made[relation] for name, relation in step.inputs.items()}
        inputs |= {name: tables[name] for name in step.dimensions}
        with views(session, inputs):
            made[step.makes] = session.sql(step.text)
    return [made[name] for name in reads.relations]


@dataclass(frozen=True, slots=True)
class _Renaming:
    """A task over rows whose columns had other names on their way to Python."""

    task: Task
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(batch.rename_columns(self.names) for batch in batches)


def map_in_arrow(frame: DataFrame, task: Task, output: str | StructType) -> DataFrame:
    """Return what tasks make of the rows of a frame, as DataFrame.mapInArrow, whatever the columns are called.

    PySpark looks the columns up by their names, and takes `a.b` for the field b of a column a.
    """
    names = tuple(frame.columns)
    if all(name.isidentifier() for name in names):
        return frame.mapInArrow(task, output)
    return frame.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(_Renaming(task, names), output)


def spark_schema(fields: Sequence[pa.Field]) -> StructType:
    """Return Arrow fields as a Spark schema."""
    schema = StructType()
    for field in fields:
        # PySpark 4.1 would take a time without a zone for one with a zone
        schema = schema.add(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True))
    return schema


def arrow_fields(schema: StructType) -> list[pa.Field]:
    """Return Spark's columns as Arrow fields; timestamps are in UTC."""
    return [pa.field(field.name, to_arrow_type(field.dataType, **IN_UTC)) for field in schema]


def stand_in(session: SparkSession, fields: Sequence[pa.Field]) -> DataFrame:
    """Return a streaming frame with these columns, for analysis only."""
    return stand_in_of(session, spark_schema(fields))


def stand_in_of(session: SparkSession, schema: StructType) -> DataFrame:
    """Return the same of Spark's columns."""
    return _any_stream(session).select(*(null_column(field.dataType, field.name) for field in schema))


@lru_cache(maxsize=1)
def _any_stream(session: SparkSession) -> DataFrame:
    """Return the frame below all stand-ins of a session."""
    return session.readStream.format("rate").load()


def null_column(data_type: DataType, name: str) -> Column:
    """Return a column of NULL."""
    return cast_column("NULL", data_type, name)


def cast_column(expression: str, data_type: DataType, name: str) -> Column:
    """Return an expression as a type. For a type of one word it is one text, since each call of the JVM takes time."""
    if isinstance(data_type, AtomicType):
        return F.expr(named(f"CAST({expression}\nAS {data_type.simpleString()})", name))
    return F.expr(expression).cast(data_type).alias(name)


def renamed(name: str, new_name: str) -> Column:
    """Return a column under a new name."""
    return F.expr(f"{quoted(name)} AS {quoted(new_name)}")
