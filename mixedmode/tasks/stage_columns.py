"""The columns that the map side of a stage reads, as Spark's columns of the input of the stage.

Spark computes them in the input frame of an epoch (executor/input_frames.py), or Spark only analyses them, and map
tasks compute them (analysis/direct_reads.py).
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import LongType, StringType

from mixedmode.config.calls import named, quoted
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import SIDE_COLUMN, TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.job_plan import JobPlan, SourceRows
from mixedmode.plan.stages import ALL_ROWS, KeyedStage, key_column
from mixedmode.spark.frames import cast_column, null_column, renamed, spark_schema
from mixedmode.tasks.exchange import ROW_PREFIX
from mixedmode.tasks.watching import PARTITION_COLUMN, SOURCE_COLUMN

__all__ = [
    "event_time_column",
    "like",
    "only_progress",
    "partition_column",
    "progress_rows",
    "stage_columns",
    "watched_columns",
    "with_source_column",
]


def stage_columns(frame: DataFrame, stage: KeyedStage, watched: Sequence[Column] = (), number: int = 0) -> DataFrame:
    """Return the columns that the map side of a stage reads, under their internal names, and the columns `watched`.

    number: of the relation, among those that the stage reads.
    """
    if stage.sides:
        return _side_columns(frame, stage, number, watched)
    columns = [F.expr(named(_key(field.name), key_column(i))) for i, field in enumerate(stage.key_fields)]
    columns += [F.expr(named(text, argument_name(i))) for i, text in enumerate(stage.arguments)]
    if stage.event_time is not None:
        columns.append(event_time_column(stage.event_time))
    if stage.is_changelog:
        columns.append(F.col(WEIGHT_COLUMN))
    columns += [renamed(field.name, f"{ROW_PREFIX}{i}") for i, field in enumerate(stage.late_fields)]
    return frame.select(*columns, *watched)


def _side_columns(frame: DataFrame, stage: KeyedStage, number: int, watched: Sequence[Column]) -> DataFrame:
    """Return the same for one side: NULL in the arguments of the other sides."""
    side = stage.sides[number]
    key_types = spark_schema(stage.key_fields)
    columns = [
        F.expr(named(side.keys[i], key_column(i))) if side.keys else null_column(key_types[i].dataType, key_column(i))
        for i in range(len(stage.key_fields))
    ]
    types = spark_schema([pa.field("argument", data_type) for data_type in stage.argument_types])
    columns += [
        cast_column(text, types[i].dataType, argument_name(i))
        if i in side.arguments
        else null_column(types[i].dataType, argument_name(i))
        for i, text in enumerate(stage.arguments)
    ]
    if stage.event_time is not None:
        columns.append(event_time_column(side.event_time))
    if stage.is_changelog:
        columns.append(F.col(WEIGHT_COLUMN))
    columns.append(F.expr(f"CAST({number} AS TINYINT) AS {SIDE_COLUMN}"))
    for tag, numbered in stage.late_columns.items():
        own = tag == side.late_tag
        late_types = spark_schema([field for _, field in numbered])
        columns += [
            cast_column(quoted(field.name), late_type.dataType, f"{ROW_PREFIX}{i}")
            if own
            else null_column(late_type.dataType, f"{ROW_PREFIX}{i}")
            for (i, field), late_type in zip(numbered, late_types, strict=True)
        ]
    return frame.select(*columns, *watched)


def watched_columns(plan: JobPlan, stage: KeyedStage) -> list[Column]:
    """Return the columns by which the only reader of the sources measures their progress, if it lacks them."""
    rows = plan.source_rows or SourceRows()
    time = [event_time_column(rows.event_time)] if plan.strategies and stage.event_time is None else []
    return [*time, *([partition_column(rows.partition)] if plan.partitions else [])]


def with_source_column(rows: DataFrame) -> DataFrame:
    """Return rows of a step with SOURCE_COLUMN, where they are read together with `progress_rows`."""
    return rows.withColumn(SOURCE_COLUMN, F.lit(None).cast("int"))


def progress_rows(plan: JobPlan, number: int, source: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the records of a source as rows that only show its progress, with the columns of `rows`.

    number: of the source, among `plan.sources_read`.
    """
    return like(rows, source, _progress_columns(plan, number))


def only_progress(plan: JobPlan, number: int, source: DataFrame) -> DataFrame:
    """Return the records of a source as rows that only show its progress, without other columns."""
    columns = _progress_columns(plan, number)
    if not plan.partitions:
        del columns[PARTITION_COLUMN]
    return source.select(*(column.alias(name) for name, column in columns.items()))


def _progress_columns(plan: JobPlan, number: int) -> dict[str, Column]:
    name = plan.sources_read[number]
    return {
        TIME_COLUMN: event_time_column(plan.event_times.get(name)),
        SOURCE_COLUMN: F.lit(number),
        PARTITION_COLUMN: partition_column(plan.partitions.get(name)),
    }


def like(rows: DataFrame, other: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return the rows of `other` with the column names of `rows`: `columns` where given, else NULL."""
    return other.select(
        *(
            columns[field.name].cast(field.dataType).alias(field.name)
            if field.name in columns
            else null_column(field.dataType, field.name)
            for field in rows.schema
        )
    )


def event_time_column(name: str | None) -> Column:
    """Return TIME_COLUMN, in microseconds, of an event-time column.  name: None for NULL."""
    if name is None:
        return null_column(LongType(), TIME_COLUMN)
    return F.expr(f"unix_micros(CAST({quoted(name)} AS TIMESTAMP)) AS {TIME_COLUMN}")


def partition_column(name: str | None) -> Column:
    """Return PARTITION_COLUMN of a partition column.  name: None for NULL."""
    return cast_column("NULL" if name is None else quoted(name), StringType(), PARTITION_COLUMN)


def _key(name: str) -> str:
    return "TRUE" if name == ALL_ROWS.name else quoted(name)
