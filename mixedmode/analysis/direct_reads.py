"""Decides if tasks can read the input of a job from the files themselves, without Spark.

The columns of a stage are made of the columns of the files by SQL: the sql steps before the stage, its computed keys
and its arguments. Spark analyses all of it as one plan for each relation that the stage reads. If every expression in
the plans is on the list of what tasks compute exactly as Spark does (mixedmode/expressions), the tasks do it on Arrow.
Otherwise Spark does all of it. The same holds for an output of rows that no keyed step writes.

All sources of a job are read by tasks, or none: the query of a job returns either files or rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst_queries import OnlySparkError, read_queries_of
from mixedmode.analysis.relations import Relation
from mixedmode.config import SourceSpec
from mixedmode.config.drift import Drift
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.connectors.files.text_slices import lines_format, only_spark_parses
from mixedmode.expressions import Query
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import PROGRESS, DirectRead, JobPlan, ReadColumn
from mixedmode.spark.frames import arrow_fields
from mixedmode.tasks.stage_columns import (
    only_progress,
    progress_rows,
    stage_columns,
    watched_columns,
    with_source_column,
)

__all__ = ["StageInputs", "reader_columns", "with_direct_reads"]

_ZONE, _CORRUPT = "spark.sql.session.timeZone", "spark.sql.columnNameOfCorruptRecord"


@dataclass(frozen=True, slots=True)
class StageInputs:
    """Stand-ins of what was analysed: sources and keyed stages, and the relations that each stage or result reads.

    relations: by the names of readers (JobPlan.readers).
    """

    sources: Mapping[str, DataFrame]
    stages: dict[str, DataFrame] = field(default_factory=dict)
    relations: dict[str, Sequence[Relation]] = field(default_factory=dict)

    def others(self, relation: Relation, root: str) -> list[DataFrame]:
        """Return the stand-ins of all other roots of a relation."""
        roots = {**self.sources, **self.stages}
        return [roots[name] for name in (*relation.sources, *relation.stages) if name != root and name in roots]


def with_direct_reads(plan: JobPlan, specs: Mapping[str, SourceSpec], inputs: StageInputs) -> JobPlan:
    """Return the plan with what its map tasks read and compute themselves, or with the reason why Spark does it."""
    try:
        _check_shape(plan, {name: specs[name] for name in plan.sources_read}, inputs.sources)
        direct = {entry: tuple(_entry_reads(plan, entry, specs, inputs)) for entry in plan.entries}
        if plan.measures_first:
            direct[PROGRESS] = tuple(_progress_reads(plan, specs, inputs))
    except OnlySparkError as error:
        return replace(plan, by_spark_because=str(error))
    return replace(plan, direct=direct)


def _check_shape(plan: JobPlan, specs: Mapping[str, SourceSpec], frames: Mapping[str, DataFrame]) -> None:
    """Raise OnlySparkError unless stages and results read sources of local files, and nothing comes before them."""
    reasons = {
        "a map step reads the source": plan.maps,
        "sql joins a dimension": joins_sources(plan),
    }
    found = next((reason for reason, holds in reasons.items() if holds), None)
    for name, source in specs.items():
        if found is None and (why := _only_spark_reads(source, frames[name])):
            found = f"the source {name} has {why}" if len(specs) > 1 else f"the source has {why}"
    if found is not None:
        raise OnlySparkError(found)


def _only_spark_reads(source: SourceSpec, frame: DataFrame) -> str | None:
    """Return what a source has that only Spark reads; None if tasks can read its files."""
    if not isinstance(source, FileSourceSpec) or "://" in source.path:
        return "no local files"
    if not is_plain_folder(source.path):
        return "partition folders"
    if source.format == "parquet":
        return "options of Spark's reader" if source.options else None
    zone, corrupt = (frame.sparkSession.conf.get(name) for name in (_ZONE, _CORRUPT))
    if zone != "UTC":
        return f"times of another zone than UTC: {zone}"
    if corrupt in frame.columns:
        return f"a column with a meaning of its own for Spark's reader: {corrupt}"
    return only_spark_parses(source, {field.name: field.dataType.simpleString() for field in frame.schema})


def _entry_reads(
    plan: JobPlan, entry: str, specs: Mapping[str, SourceSpec], inputs: StageInputs
) -> Iterator[DirectRead]:
    """Yield what a reader of sources reads of each of them. One reader also measures their progress (measured_by)."""
    measures = plan.source_rows is None and entry == plan.measured_by
    frames = {
        number: (relation, reader_columns(plan, entry, relation, number, measures=measures))
        for number, relation in enumerate(inputs.relations[entry])
        if relation.sources
    }
    some = next(frame for _, frame in frames.values())
    for name in plan.sources_read:
        source = inputs.sources[name]
        made = [
            (frame, inputs.others(relation, name)) for relation, frame in frames.values() if name in relation.sources
        ]
        if measures:
            made.append((progress_rows(plan, plan.sources_read.index(name), source, some), []))
        if made:
            yield _direct_read(name, source, specs[name], made)


def _progress_reads(plan: JobPlan, specs: Mapping[str, SourceSpec], inputs: StageInputs) -> Iterator[DirectRead]:
    """Yield what tasks read of each source that only measure the progress."""
    for number, name in enumerate(plan.sources_read):
        source = inputs.sources[name]
        yield _direct_read(name, source, specs[name], [(only_progress(plan, number, source), [])])


def _direct_read(
    name: str, source: DataFrame, spec: SourceSpec, made: Sequence[tuple[DataFrame, Sequence[DataFrame]]]
) -> DirectRead:
    """Return what tasks read of a source.  made: frames with rows that they make of it, and the frames' other roots."""
    assert isinstance(spec, FileSourceSpec), spec
    queries = tuple(
        query for frame, others in made for query in read_queries_of(frame, until=source, others=others, may_leave=True)
    )
    drift = replace(spec.drift or Drift(), declared=tuple(source.columns))
    lines = lines_format(spec)
    used = _columns_read(queries, source.schema, drift) if lines is None else _every_column(source.schema)
    return DirectRead(name, used, queries, lines)


def reader_columns(plan: JobPlan, entry: str, relation: Relation, number: int, *, measures: bool = False) -> DataFrame:
    """Return the columns that a reader takes of a relation.  number: of the relation."""
    reads, stage = plan.reader(entry)
    frame = relation.frame
    if reads.changelogs:
        frame = frame.withColumn(WEIGHT_COLUMN, F.lit(1).cast("long"))
    if stage is not None:
        watched = watched_columns(plan, stage) if entry == plan.measured_by else []
        frame = stage_columns(frame, stage, watched, number)
    return with_source_column(frame) if measures else frame


def _columns_read(queries: Sequence[Query], schema: StructType, drift: Drift) -> tuple[ReadColumn, ...]:
    """Return the columns that the queries use; the first one of the source if they use none, to count its rows."""
    used = {column.name: column for query in queries for column in query.reads}
    columns = [ReadColumn(name, column.data_type, name, drift) for name, column in used.items()]
    if not columns:
        first = arrow_fields(schema)[0]
        columns = [ReadColumn(first.name, first.type, first.name, drift)]
    return tuple(columns)


def _every_column(schema: StructType) -> tuple[ReadColumn, ...]:
    return tuple(ReadColumn(field.name, field.type, field.name) for field in arrow_fields(schema))
