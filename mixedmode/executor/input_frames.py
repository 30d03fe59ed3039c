"""The input frame of an epoch: the rows of the first step, and rows that show the progress of the sources.

The frame is part of the streaming query, so Spark prunes columns and pushes filters into the scan. Spark's log has a
line for each time that a query reads a source, and Spark refuses to go on with another number of lines. So the query
always reads each source a second time, for its event time. Where the rows of the first step have the event time, the
second reading has a false filter, and Spark prunes it.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.config.calls import quoted
from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.stages import JobPlan, KeyedStage, SourceRows, SqlText
from mixedmode.spark.frames import apply_sql, views
from mixedmode.tasks.exchange import KEY_PREFIX, ROW_PREFIX
from mixedmode.tasks.watching import PARTITION_COLUMN, SOURCE_COLUMN

__all__ = ["input_frame", "stage_columns", "with_nothing_of"]

#: without this setting, Spark runs a branch of a streaming query that can return no row
_PRUNES = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"


def input_frame(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Return the input frame of an epoch: columns of the first keyed stage, or rows for a map stage or the sink.

    If the sources are read a second time for their progress, the frame also has these rows. They have the number of
    their source in SOURCE_COLUMN; the other rows have NULL there.
    """
    rows = _first_step(session, plan, sources)
    if plan.source_rows is None:
        rows = rows.withColumn(SOURCE_COLUMN, F.lit(None).cast("int"))
        names = plan.sources_read
        seen = [_seen(plan, name, number, sources[name], rows) for number, name in enumerate(names)]
        return reduce(DataFrame.union, seen, rows)
    for name in plan.sources_read:
        rows = with_nothing_of(session, rows, sources[name])
    return rows


def with_nothing_of(session: SparkSession, rows: DataFrame, source: DataFrame | None = None) -> DataFrame:
    """Return `rows` and a second reading of `source` that adds no row.  source: None for the frame itself."""
    session.conf.set(_PRUNES, "true")
    return rows.union(_like(rows, (source or rows).where("false"), {}))


def stage_columns(frame: DataFrame, stage: KeyedStage, watched: Sequence[Column] = ()) -> DataFrame:
    """Return the columns that the map side of a stage reads, under their internal names, and the columns `watched`."""
    columns = [F.col(quoted(field.name)).alias(f"{KEY_PREFIX}{i}") for i, field in enumerate(stage.key_fields)]
    columns += [F.expr(text).alias(argument_name(i)) for i, text in enumerate(stage.arguments)]
    if stage.event_time is not None:
        columns.append(_micros(stage.event_time))
    if stage.is_changelog:
        columns.append(F.col(WEIGHT_COLUMN))
    columns += [F.col(quoted(field.name)).alias(f"{ROW_PREFIX}{i}") for i, field in enumerate(stage.late_fields)]
    return frame.select(*columns, *watched)


def _first_step(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    rows = plan.source_rows or SourceRows()
    partition = [_partition(rows.partition)] if plan.partitions else []
    if plan.maps:
        frame = _first_sql(session, plan.maps[0].sql, sources)
        if not plan.strategies:
            return frame
        columns = [F.col(quoted(name)).alias(f"{ROW_PREFIX}{i}") for i, name in enumerate(frame.columns)]
        return frame.select(*columns, _micros(rows.event_time), *partition)
    if not plan.stages:
        return _first_sql(session, plan.sql, sources)
    stage = plan.stages[0]
    time = [_micros(None)] if plan.strategies and stage.event_time is None else []
    return stage_columns(_first_sql(session, stage.sql, sources), stage, [*time, *partition])


def _seen(plan: JobPlan, name: str, number: int, source: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the records of a source as rows that only show the progress of the source."""
    return _like(
        rows,
        source,
        {
            TIME_COLUMN: _micros(plan.event_times.get(name)),
            SOURCE_COLUMN: F.lit(number),
            PARTITION_COLUMN: _partition(plan.partitions.get(name)),
        },
    )


def _like(rows: DataFrame, other: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return the rows of `other` with the column names of `rows`: `columns` where given, else NULL."""
    return other.select(
        *(columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in rows.schema)
    )


def _micros(column: str | None) -> Column:
    expression = F.lit(None) if column is None else F.expr(f"unix_micros(CAST({quoted(column)} AS TIMESTAMP))")
    return expression.cast("long").alias(TIME_COLUMN)


def _partition(column: str | None) -> Column:
    return (F.lit(None) if column is None else F.col(quoted(column))).cast("string").alias(PARTITION_COLUMN)


def _first_sql(session: SparkSession, steps: Sequence[SqlText], sources: Mapping[str, DataFrame]) -> DataFrame:
    if not steps:
        return next(iter(sources.values()))
    first, *rest = steps
    with views(session, sources):
        frame = session.sql(first.text)
    return apply_sql(session, frame, rest)
