"""Decides which sources tasks read themselves from their files, without Spark.

The columns of a stage are made of the columns of the files by SQL: the sql steps before the stage, its computed keys
and its arguments. Spark analyses all of it as one plan for each relation that the stage reads. If every expression in
the plans is on the list of what tasks compute exactly as Spark does (mixedmode/expressions), the tasks do it on Arrow.
Otherwise Spark does all of it. The same holds for an output of rows that no keyed step writes.

Each source is judged by itself. Of one with a history and a live side, tasks may read the files of one side. An epoch
with values that only Spark computes runs again on rows that Spark reads of its files (LeftToSparkError).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.analysis.catalyst_expressions import OnlySparkError
from mixedmode.analysis.catalyst_queries import read_queries_of
from mixedmode.analysis.file_parts import FilePart
from mixedmode.analysis.relations import Relation
from mixedmode.config.drift import Drift
from mixedmode.connectors.files.parquet_files import is_plain_folder
from mixedmode.connectors.files.text_slices import lines_format, only_spark_parses
from mixedmode.expressions import Query
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.plan.dimensions import dimensions_of
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

#: a frame with rows of a reader, and the roots other than the source in question in which its branches may end
_Made = tuple[DataFrame, Sequence[DataFrame]]

_ZONE, _CORRUPT = "spark.sql.session.timeZone", "spark.sql.columnNameOfCorruptRecord"


@dataclass(frozen=True, slots=True)
class StageInputs:
    """Stand-ins of what was analysed: sources and keyed stages, and the relations that each stage or result reads.

    parts: the files of sources that have some. relations: by the names of readers (JobPlan.readers).
    """

    sources: Mapping[str, DataFrame]
    parts: Mapping[str, FilePart]
    stages: dict[str, DataFrame] = field(default_factory=dict)
    relations: dict[str, Sequence[Relation]] = field(default_factory=dict)

    def others(self, relation: Relation, root: str) -> list[DataFrame]:
        """Return the stand-ins of all other roots of a relation."""
        roots = {**self.sources, **self.stages}
        return [roots[name] for name in (*relation.sources, *relation.stages) if name != root and name in roots]


def with_direct_reads(plan: JobPlan, inputs: StageInputs) -> JobPlan:
    """Return the plan with what its tasks read and compute themselves, and why Spark reads the other sources."""
    if plan.maps:
        return replace(plan, by_spark=dict.fromkeys(plan.sources_read, "a map step reads the source"))
    by_spark = {name: why for name in plan.sources_read if (why := _only_spark_reads(name, inputs)) is not None}
    parts = {name: part for name, part in inputs.parts.items() if name in plan.sources_read and name not in by_spark}
    direct: dict[str, tuple[DirectRead, ...]] = {}
    for name, part in parts.items():
        try:
            found = _reads_of(plan, name, part, inputs)
        except OnlySparkError as error:
            by_spark[name] = str(error)
        else:
            direct = {entry: (*direct.get(entry, ()), *reads) for entry, reads in found.items()}
    return replace(plan, direct=direct if any(direct.values()) else {}, by_spark=by_spark)


def _reads_of(plan: JobPlan, name: str, part: FilePart, inputs: StageInputs) -> dict[str, tuple[DirectRead, ...]]:
    """Return what tasks read of a source, for each entry. Raise OnlySparkError if only Spark can do any of it."""
    made = {entry: _made(plan, entry, name, inputs) for entry in plan.entries}
    if plan.measures_first:
        made[PROGRESS] = [(only_progress(plan, plan.sources_read.index(name), inputs.sources[name]), ())]
    dimensions = dimensions_of(plan)
    return {entry: (_direct_read(name, part, frames, dimensions),) if frames else () for entry, frames in made.items()}


def _only_spark_reads(name: str, inputs: StageInputs) -> str | None:
    """Return why only Spark reads a source; None if tasks can read its files."""
    part = inputs.parts.get(name)
    if part is None or "://" in part.spec.path:
        return "the source has no local files"
    if not is_plain_folder(part.spec.path):
        return "the source has partition folders"
    if part.spec.format == "parquet":
        return "the source has options of Spark's reader" if part.spec.options else None
    zone, corrupt = (part.frame.sparkSession.conf.get(name) for name in (_ZONE, _CORRUPT))
    if zone != "UTC":
        return f"the source has times of another zone than UTC: {zone}"
    if corrupt in part.frame.columns:
        return f"the source has a column with a meaning of its own for Spark's reader: {corrupt}"
    types = {field.name: field.dataType.simpleString() for field in part.frame.schema}
    why = only_spark_parses(part.spec, types)
    return None if why is None else f"the source has {why}"


def _made(plan: JobPlan, entry: str, name: str, inputs: StageInputs) -> list[_Made]:
    """Return the frames with rows that an entry makes of a source."""
    measures = plan.source_rows is None and entry == plan.measured_by
    relations = [(number, one) for number, one in enumerate(inputs.relations[entry]) if one.sources]
    made: list[_Made] = [
        (reader_columns(plan, entry, relation, number, measures=measures), inputs.others(relation, name))
        for number, relation in relations
        if name in relation.sources
    ]
    if measures:
        number, relation = relations[0]
        some = made[0][0] if made else reader_columns(plan, entry, relation, number, measures=True)
        made.append((progress_rows(plan, plan.sources_read.index(name), inputs.sources[name], some), ()))
    return made


def _direct_read(name: str, part: FilePart, made: Sequence[_Made], dimensions: Collection[str]) -> DirectRead:
    """Return what tasks read of a source."""
    queries = tuple(
        query
        for frame, others in made
        for query in read_queries_of(
            frame, until=part.frame, others=(*part.others, *others), dimensions=dimensions, may_leave=True
        )
    )
    drift = replace(part.spec.drift or Drift(), declared=tuple(part.frame.columns))
    lines = lines_format(part.spec)
    used = _columns_read(queries, part.frame.schema, drift) if lines is None else _every_column(part.frame.schema)
    return DirectRead(name, used, queries, lines, part.side)


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
        try:
            (first,) = arrow_fields(StructType(schema.fields[:1]))
        except PySparkException as error:
            msg = f"Arrow has no type for the column {schema[0].name}"
            raise OnlySparkError(msg) from error
        columns = [ReadColumn(first.name, first.type, first.name, drift)]
    return tuple(columns)


def _every_column(schema: StructType) -> tuple[ReadColumn, ...]:
    return tuple(ReadColumn(field.name, field.type, field.name) for field in arrow_fields(schema))
