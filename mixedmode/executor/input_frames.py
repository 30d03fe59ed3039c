"""The input frame of an epoch: the rows of the first step, and rows that show the progress of the sources.

The frame is part of the streaming query, so Spark prunes columns and pushes filters into the scan. Spark's log has a
line for each time that a query reads a source, and Spark refuses to go on with another number of lines. So the query
always reads each source a second time, for its event time. Where the rows of the first step have the event time, the
second reading has a false filter, and Spark prunes it.

If the sql joins a dimension, the query has the rows of the sources as they are, and the sql runs in the epoch: each
epoch has another version of the dimension, and a query has one plan (`joined_rows`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.config.calls import quoted
from mixedmode.operators.interface import TIME_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import JobPlan, SourceRows
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage
from mixedmode.spark.frames import null_column, relations_of, renamed, spark_schema
from mixedmode.tasks.exchange import ROW_PREFIX
from mixedmode.tasks.stage_columns import (
    event_time_column,
    like,
    partition_column,
    progress_rows,
    stage_columns,
    watched_columns,
    with_source_column,
)
from mixedmode.tasks.watching import PARTITION_COLUMN, SOURCE_COLUMN

__all__ = [
    "entry_rows",
    "input_frame",
    "joined_rows",
    "map_input",
    "planned_files",
    "prune_in_streams",
    "rows_of_progress",
    "rows_read",
]

ENTRY_COLUMN = "_entry"  # number of the entry, in rows of a job with several
_OF_PROGRESS = (TIME_COLUMN, PARTITION_COLUMN, SOURCE_COLUMN)


def input_frame(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Return the input frame of an epoch: columns of the stages that read sources, or rows for maps or an output.

    If there are several entries, their columns have the number of the entry in their names, and each row has the number
    of its entry in ENTRY_COLUMN; `entry_rows` takes them apart. If the sources are read a second time for their
    progress, the frame also has these rows. They have the number of their source in SOURCE_COLUMN; the other rows have
    NULL there. If sql joins a dimension, each source is an entry, in the order of `plan.sources_read`.
    """
    if joins_sources(plan):
        rows = _numbered(plan, [sources[name] for name in plan.sources_read])
    else:
        rows = _only_entry(session, plan, sources) if plan.has_one_entry else _entries(session, plan, sources)
    if plan.source_rows is None:
        rows = with_source_column(rows)
        seen = [progress_rows(plan, number, sources[name], rows) for number, name in enumerate(plan.sources_read)]
        return reduce(DataFrame.union, seen, rows)
    for name in plan.sources_read:
        rows = _with_nothing_of(session, rows, sources[name])
    return rows


def prune_in_streams(session: SparkSession) -> None:
    """Let Spark leave out the branches of a streaming query that can return no row; it runs them by default."""
    session.conf.set("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "true")


def planned_files(files: Mapping[str, DataFrame], readings: Sequence[str]) -> DataFrame:
    """Return the streaming frame of a job whose map tasks read all files. It has no rows: Spark's log names the files.

    files: {source: its stream without rows}. readings: the source of each reading.
    """
    alike = {name: frame.selectExpr("0 AS nothing") for name, frame in files.items()}
    return reduce(DataFrame.union, [alike[name] for name in readings])


def entry_rows(frame: DataFrame, plan: JobPlan, entry: str) -> DataFrame:
    """Return the rows of one of several entries. The one that measures also gets the rows that show the progress."""
    number = list(plan.entries).index(entry)
    prefix = f"_entry{number}_"
    own = {name.removeprefix(prefix): F.col(quoted(name)) for name in frame.columns if name.startswith(prefix)}
    is_own = F.col(ENTRY_COLUMN) == number
    if entry != plan.measured_by:
        return frame.where(is_own).select(*(column.alias(name) for name, column in own.items()))
    for name in _OF_PROGRESS:  # NULL in rows of an entry, as the columns of an entry are in rows of the progress
        if name in frame.columns:
            own[name] = F.coalesce(own[name], F.col(name)) if name in own else F.col(name)
    rows = frame.where(is_own | F.col(SOURCE_COLUMN).isNotNull())
    return rows.select(*(column.alias(name) for name, column in own.items()))


def joined_rows(
    session: SparkSession, frame: DataFrame, plan: JobPlan, entry: str, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the rows of an entry of a job whose sql joins dimensions, made of the rows of sources in an input frame.

    The entry that measures also gets the rows that show the progress.  tables: {dimension: its rows}.
    """
    reads, stage = plan.reader(entry)
    rows = rows_read(session, reads, _source_rows(frame, plan, reads.sources), plan, stage, tables=tables)
    return _with_progress(rows, frame) if entry == plan.measured_by else rows


def map_input(session: SparkSession, frame: DataFrame, plan: JobPlan, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the input of the first map stage, as `joined_rows` does that of an entry."""
    roots = _source_rows(frame, plan, plan.maps[0].reads.sources)
    return _with_progress(_map_columns(session, plan, roots, tables), frame)


def _source_rows(frame: DataFrame, plan: JobPlan, sources: Sequence[str]) -> dict[str, DataFrame]:
    """Return the rows of sources in an input frame, without those that show the progress."""
    return {
        name: _columns_of(frame.where(F.col(ENTRY_COLUMN) == n), n)
        for n, name in enumerate(plan.sources_read)
        if name in sources
    }


def _with_progress(rows: DataFrame, frame: DataFrame) -> DataFrame:
    """Return rows of an entry, and those rows of an input frame that show the progress, if it has any."""
    if SOURCE_COLUMN not in frame.columns:
        return rows
    return rows.unionByName(rows_of_progress(frame), allowMissingColumns=True)


def rows_of_progress(frame: DataFrame) -> DataFrame:
    """Return the rows of an input frame that show the progress of the sources."""
    return frame.where(F.col(SOURCE_COLUMN).isNotNull()).select(*(n for n in _OF_PROGRESS if n in frame.columns))


def _columns_of(frame: DataFrame, number: int) -> DataFrame:
    """Return the columns of one entry, under their own names."""
    prefix = f"_entry{number}_"
    own = {name.removeprefix(prefix): name for name in frame.columns if name.startswith(prefix)}
    return frame.select(*(F.col(quoted(name)).alias(alias) for alias, name in own.items()))


def _with_nothing_of(session: SparkSession, rows: DataFrame, source: DataFrame) -> DataFrame:
    """Return `rows` and a second reading of `source` that adds no row."""
    prune_in_streams(session)
    return rows.union(like(rows, source.where("false"), {}))


def _only_entry(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    if plan.maps:
        return _map_columns(session, plan, sources, {})
    (entry,) = plan.entries
    reads, stage = plan.reader(entry)
    if stage is None:
        return rows_read(session, reads, sources, plan, None)
    return rows_read(session, reads, sources, plan, stage, watched_columns(plan, stage))


def _map_columns(
    session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame], tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the columns that the first map stage reads."""
    (frame,) = relations_of(session, sources, plan.maps[0].reads, tables)
    if not plan.strategies:
        return frame
    rows = plan.source_rows or SourceRows()
    columns = [F.col(quoted(name)).alias(f"{ROW_PREFIX}{i}") for i, name in enumerate(frame.columns)]
    partition = [partition_column(rows.partition)] if plan.partitions else []
    return frame.select(*columns, event_time_column(rows.event_time), *partition)


def _entries(session: SparkSession, plan: JobPlan, sources: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of all entries, numbered."""
    frames = []
    for entry in plan.entries:
        reads, stage = plan.reader(entry)
        frames.append(rows_read(session, reads, sources, plan, stage))
    return _numbered(plan, frames)


def _numbered(plan: JobPlan, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all entries, one after the other, with their number and with NULL in the columns of others."""
    every = [(n, field) for n, frame in enumerate(frames) for field in frame.schema]
    numbered = []
    for number, frame in enumerate(frames):
        columns = [
            renamed(field.name, f"_entry{n}_{field.name}")
            if n == number
            else null_column(field.dataType, f"_entry{n}_{field.name}")
            for n, field in every
        ]
        progress = [event_time_column(None), *([partition_column(None)] if plan.partitions else [])]
        numbered.append(frame.select(F.lit(number).alias(ENTRY_COLUMN), *columns, *progress))
    return reduce(DataFrame.union, numbered)


def rows_read(
    session: SparkSession,
    reads: Reads,
    roots: Mapping[str, DataFrame],
    plan: JobPlan,
    stage: KeyedStage | None,
    watched: Sequence[Column] = (),
    tables: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """Return the rows that a stage or an output reads from `roots`; all other roots that it reads have no rows.

    roots: {name: frame}. The frame of a stage whose rows may be retracted has weights. stage: None for an output.
    tables: {dimension: its rows}.

    Each row is made of one row of a root. So the rows of several roots can be made one after the other. The sql runs
    on rows of each weight (-1 retracts, +1 adds) separately. For example, when count 4 of a key becomes 5, `SELECT k,
    n * 2` turns (k, 4, -1), (k, 5, +1) into (k, 8, -1), (k, 10, +1). Rows of other roots are added.
    """
    known = {name: roots[name] for name in (*reads.sources, *reads.stages) if name in roots}
    if not reads.changelogs:
        frames = _relations(session, reads, known, plan, tables or {})
        return _joined(stage, frames, watched)
    parts = []
    for weight in (-1, 1):
        weighted = {
            name: frame.where(F.col(WEIGHT_COLUMN) == weight).drop(WEIGHT_COLUMN) if name in reads.changelogs else frame
            for name, frame in known.items()
            if name in reads.changelogs or weight == 1
        }
        if weighted:
            frames = _relations(session, reads, weighted, plan, tables or {})
            parts.append(
                _joined(
                    stage,
                    {n: frame.withColumn(WEIGHT_COLUMN, F.lit(weight).cast("long")) for n, frame in frames.items()},
                    watched,
                )
            )
    return reduce(DataFrame.union, parts)


def _relations(
    session: SparkSession,
    reads: Reads,
    roots: Mapping[str, DataFrame],
    plan: JobPlan,
    tables: Mapping[str, DataFrame],
) -> dict[int, DataFrame]:
    """Return the relations of a reader that have rows of `roots`, by number."""
    if len(roots) == len(reads.sources) + len(reads.stages):
        return dict(enumerate(relations_of(session, roots, reads, tables)))
    if not reads.sql:
        return {number: roots[name] for number, name in enumerate(reads.relations) if name in roots}
    some = next(iter(roots.values()))
    given = dict(roots)
    for name in (*reads.sources, *reads.stages):
        if name not in given:
            given[name] = _without_rows(some, _schema_of(name, plan))
    return dict(enumerate(relations_of(session, given, reads, tables)))


def _without_rows(some: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame without rows; like `some`, it is of a stream or not, as Spark unites only frames of one kind."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return some.where("false").select(*columns)


def _schema_of(root: str, plan: JobPlan) -> StructType:
    stage = next((stage for stage in plan.stages if stage.operator_id == root), None)
    if stage is None:
        return StructType.fromJson(json.loads(plan.source_schemas[root]))
    return spark_schema([field for field in stage.emitted_fields if field.name != WEIGHT_COLUMN])


def _joined(stage: KeyedStage | None, frames: Mapping[int, DataFrame], watched: Sequence[Column]) -> DataFrame:
    """Return the rows of several relations, one after the other; for a stage, the columns that its map side reads.

    frames: by the number of the relation.
    """
    if stage is None:
        return reduce(DataFrame.unionByName, frames.values())
    parts = [stage_columns(frame, stage, watched, number) for number, frame in frames.items()]
    return reduce(DataFrame.union, parts)
