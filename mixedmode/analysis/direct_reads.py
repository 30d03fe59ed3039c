"""Decides if tasks can read the input of the first keyed stage from the files themselves, without Spark.

The columns of the stage are made of the columns of the files by SQL: the sql steps before the stage, its computed keys
and its arguments. Spark analyses all of it as one plan. If every expression in the plan is on the list of what tasks
compute exactly as Spark does (mixedmode/expressions), the tasks do it on Arrow. Otherwise Spark does all of it. The
same holds for the output of a job without a keyed step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst_queries import OnlySparkError, read_query_of
from mixedmode.config import SourceSpec
from mixedmode.config.drift import Drift
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.expressions import Query
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import JobPlan, ReadColumn
from mixedmode.spark.frames import arrow_fields
from mixedmode.tasks.stage_columns import progress_rows, stage_columns, watched_columns, with_source_column

__all__ = ["StageInputs", "with_direct_reads"]


@dataclass(frozen=True, slots=True)
class StageInputs:
    """Stand-ins of what was analysed: the sources by name, and the relations that each stage or result reads.

    relations: by the names of entries (JobPlan.entries).
    """

    sources: Mapping[str, DataFrame]
    relations: dict[str, Sequence[DataFrame]] = field(default_factory=dict)


def with_direct_reads(plan: JobPlan, specs: Mapping[str, SourceSpec], inputs: StageInputs) -> JobPlan:
    """Return the plan with what its map tasks read and compute themselves, or with the reason why Spark does it."""
    try:
        _check_shape(plan, specs)
        (spec,), (frame,) = specs.values(), inputs.sources.values()
        assert isinstance(spec, FileSourceSpec), spec
        queries = _queries(plan, frame, inputs.relations[next(iter(plan.entries))])
    except OnlySparkError as error:
        return replace(plan, by_spark_because=str(error))
    drift = replace(spec.drift or Drift(), declared=tuple(frame.columns))
    return replace(plan, reads=_columns_read(queries, frame.schema, drift), queries=queries)


def _check_shape(plan: JobPlan, specs: Mapping[str, SourceSpec]) -> None:
    """Raise OnlySparkError unless one stage or result reads one source of local Parquet files."""
    source = next(iter(specs.values()))
    reasons = {
        "the job has several sources": len(specs) > 1,
        "a map step reads the source": plan.maps,
        "sql joins a dimension": joins_sources(plan),
        "the source has several readers": not plan.has_one_entry,
        "a step joins the source with itself": any(stage.sides for stage in plan.stages[:1]),
        "the source has no local Parquet files": not isinstance(source, FileSourceSpec)
        or source.format != "parquet"
        or "://" in source.path,
    }
    found = next((reason for reason, holds in reasons.items() if holds), None)
    if found is None and isinstance(source, FileSourceSpec) and source.options:
        found = "options of Spark's reader are set"
    if found is None and isinstance(source, FileSourceSpec) and not is_plain_folder(source.path):
        found = "the source has partition folders"
    if found is not None:
        raise OnlySparkError(found)


def _queries(plan: JobPlan, source: DataFrame, relations: Sequence[DataFrame]) -> tuple[Query, ...]:
    """Return the rows of each relation as a query, and then the rows that show the progress."""
    frames = list(relations)
    if plan.stages:
        stage = plan.stages[0]
        frames = [stage_columns(frame, stage, watched_columns(plan, stage)) for frame in frames]
    if plan.source_rows is None:
        frames = [with_source_column(frame) for frame in frames]
        frames.append(progress_rows(plan, 0, source, frames[0]))
    return tuple(read_query_of(frame, until=source) for frame in frames)


def _columns_read(queries: Sequence[Query], schema: StructType, drift: Drift) -> tuple[ReadColumn, ...]:
    """Return the columns that the queries use; the first one of the source if they use none, to count its rows."""
    used = {column.name: column for query in queries for column in query.reads}
    columns = [ReadColumn(name, column.data_type, name, drift) for name, column in used.items()]
    if not columns:
        first = arrow_fields(schema)[0]
        columns = [ReadColumn(first.name, first.type, first.name, drift)]
    return tuple(columns)
