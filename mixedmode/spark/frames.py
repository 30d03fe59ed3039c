"""Helpers for Spark's frames: temporary views, sql steps, schemas, quoted names, stand-ins."""

import contextlib
import itertools
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

# Spark 4.1 has only timestamps in UTC, and no such parameter
IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}

#: makes batches of batches in Spark's Python workers
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_plans = itertools.count()


@contextlib.contextmanager
def views(session: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Register `frames` as temporary views, by their names, while the block runs."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in frames:
            session.catalog.dropTempView(name)


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
        with views(session, {name: _with_own_plan(frame) for name, frame in inputs.items()}):
            made[step.makes] = session.sql(step.text)
    return [made[name] for name in reads.relations]


def _with_own_plan(frame: DataFrame) -> DataFrame:
    """Return the same rows, by a plan that equals no other one. Spark's optimizer removes the condition.

    When a view is dropped, Spark builds each persisted frame anew that has the view's plan in its own and is not yet
    complete. So if two readers read one stage, the end of the second one's view would discard what the first one is
    just persisting; a stage would run twice.
    """
    number = F.lit(next(_plans))
    return frame.where(number == number)  # noqa: PLR0124 - two literals in Spark's plan


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
