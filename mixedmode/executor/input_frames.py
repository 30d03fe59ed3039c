"""The frame that an epoch begins with: what the first step reads, and what says how far the sources have come.

It belongs to the streaming query, so that Spark prunes columns and pushes filters into the scan. Spark's log has a line
for each time that a query reads a source, and refuses to go on with another number of them. So the query always
reads each source a second time, for its event time; where the first step's rows tell that, of no row (Spark prunes it).
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.operators.aggregate import argument_name
from mixedmode.operators.interface import TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.stages import JobPlan, KeyedStage, SourceRows, SqlText
from mixedmode.spark.frames import apply_sql, quoted, views
from mixedmode.tasks.exchange import KEY_PREFIX, ROW_PREFIX
from mixedmode.tasks.watching import PARTITION_COLUMN, SOURCE_COLUMN

__all__ = ["input_frame", "stage_columns", "with_nothing_of"]

#: without it, Spark runs a branch of a streaming query that can give no row
_PRUNES = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"


def input_frame(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Columns of the first keyed stage, or rows for a map stage or the sink; and where rows are read only to see how
    far a source has come, those, with its number in SOURCE_COLUMN.
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
    """The rows of a frame whose query reads the source a second time, and none of its rows; the frame is the source if
    none is given.
    """
    session.conf.set(_PRUNES, "true")
    return rows.union(_like(rows, (source or rows).where("false"), {}))


def stage_columns(frame: DataFrame, stage: KeyedStage, watched: Sequence[Column] = ()) -> DataFrame:
    """What the map side of a stage reads, under the names that it expects; and `watched`, what moves the watermark."""
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
    """The records of a source as rows that only say how far it has come."""
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
    """Rows of another frame with the columns of `rows`, NULL but for `columns`."""
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
