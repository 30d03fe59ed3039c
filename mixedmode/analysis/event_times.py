"""The columns of the sources with event times and partitions, and the watermark strategy of a source."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampNTZType, TimestampType

from mixedmode.config import JobSpec, SourceSpec
from mixedmode.config.modes import resolve_mode
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.plan.explain_steps import goes_by_time
from mixedmode.plan.job_plan import JobPlan, SourceRows
from mixedmode.spark.frames import spark_schema
from mixedmode.time import Strategy

__all__ = [
    "check_event_time",
    "event_time_of",
    "find_event_time",
    "partition_column_of",
    "strategy_of",
    "watermarks",
]


def event_time_of(source: SourceSpec, schema: StructType, where: str) -> str | None:
    """Return the event-time column of a source, None if it has none. Raise InvalidJobError if it is wrong."""
    if source.event_time is None:
        return None
    field = _column_of(schema, source.event_time, where)
    _check_event_time(field.dataType, source.event_time, where)
    return str(field.name)


def partition_column_of(source: SourceSpec, schema: StructType, where: str) -> str | None:
    """Return the partition column of a source, None if it has none. Raise InvalidJobError if it is no column."""
    column = source.watermark.partition_column
    return None if column is None else str(_column_of(schema, column, where).name)


def _column_of(schema: StructType, column: str, place: str) -> StructField:
    """Return a column of a source, found by its name without regard to case."""
    columns = {field.name.lower(): field for field in schema}
    if column.lower() not in columns:
        known = schema.names
        msg = f"{place}: there is no column {column}.{did_you_mean(column, known)} Columns here: {', '.join(known)}."
        raise InvalidJobError(msg)
    return columns[column.lower()]


def _check_event_time(data_type: DataType, column: str, place: str) -> None:
    if not isinstance(data_type, TimestampType | TimestampNTZType | DateType):
        msg = (
            f"{place}: event time must be a timestamp. Give the column the type timestamp where its type is declared. "
            "Of a number in a source, computed-columns make one, as in `at: timestamp_millis(ts)` for milliseconds "
            f"since 1970. column={column}, type={data_type.simpleString()}"
        )
        raise InvalidJobError(msg)


def check_event_time(fields: Sequence[pa.Field], column: str, where: str) -> None:
    """Raise InvalidJobError unless one of the output columns of a function has this name, and can be event time."""
    _check_event_time(_column_of(spark_schema(fields), column, where).dataType, column, where)


def find_event_time(frame: DataFrame, event_times: Mapping[str, str]) -> str | None:
    """Return the event-time column of a keyed step's input; None if the sql before it did not keep one.

    event_times: the names that it may have, by source; after a keyed step, the name that this step emits.
    """
    wanted = {column.lower() for column in event_times.values()}
    for field in frame.schema:
        is_time = isinstance(field.dataType, TimestampType | TimestampNTZType | DateType)
        if field.name.lower() in wanted and is_time:
            return str(field.name)
    return None


def watermarks(spec: JobSpec, plan: JobPlan, rows: SourceRows | None) -> tuple[dict[str, Strategy], SourceRows | None]:
    """Return the watermark strategy of each source, and the rows with its event times (see JobPlan.source_rows).

    rows: those of `records_read`. If no step depends on the watermark, there are no strategies, and no source is read a
    second time. Where several steps or outputs read sources, the second reading also counts the records.
    """
    declared = [name for name in plan.sources_read if name in plan.event_times]
    if not plan.stages or not declared or (rows is None and not _goes_by_watermark(spec, plan)):
        return {}, SourceRows() if plan.has_one_entry else None
    return {name: strategy_of(spec.sources[name]) for name in declared}, rows


def strategy_of(source: SourceSpec) -> Strategy:
    """Return how the watermark of a source follows its event times."""
    watermark = source.watermark
    return Strategy(1000 * watermark.out_of_orderness_ms, watermark.idle_timeout_ms, watermark.max_ahead_ms)


def _goes_by_watermark(spec: JobSpec, plan: JobPlan) -> bool:
    """Return whether a step of a job depends on the watermark, or its lag ends a backlog."""
    if resolve_mode(spec).mode == "batch":
        return False  # its only watermark is the end of time
    has_threshold = spec.pipeline.backlog.watermark_lag_threshold_ms is not None
    return has_threshold or bool(plan.maps) or any(goes_by_time(stage) for stage in plan.stages)
