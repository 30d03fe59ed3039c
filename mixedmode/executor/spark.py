"""Runs the stages of an epoch on Spark, one after the other, in topological order.

    source rows -> sql -> columns of a stage -> [map side] => [subtask] -> changelog -> sql -> ... => [subtask] -> sink

Map stages come first, and have their own module (map_stages.py). Up to the columns of the stages that read sources, the
frame is part of the streaming query (input_frames.py). If tasks can compute what all such stages need of their files,
the query returns files instead of rows, and the map sides read them (tasks/direct.py). All later frames are built in
`foreachBatch`, once per epoch.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch, ListState
from mixedmode.connectors.files.parquet_files import file_bytes, path_of_text, path_of_url
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import LeftToSparkError
from mixedmode.executor.dimensions import Dimensions, VersionsRead, unstable
from mixedmode.executor.input_frames import entry_rows, input_frame, joined_rows, map_input, rows_read
from mixedmode.executor.map_stages import release, run_maps
from mixedmode.executor.protocol import EpochResult, EpochTask, rows_action
from mixedmode.executor.rows_between import is_computed_twice, may_compute_twice, rows_of
from mixedmode.executor.stage_tasks import REPORT_FIELD, after, epoch_result, map_side, rows_task, subtasks
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import JobPlan, entry_of
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage
from mixedmode.sources.source import OpenSource
from mixedmode.spark.frames import spark_schema
from mixedmode.spark.jobs import described
from mixedmode.spark.session import cores
from mixedmode.tasks.direct import DirectMapSide, DirectRows, FilesRead, deal_out, effort_bytes, one_task
from mixedmode.tasks.exchange import BLOCK_DDL
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.single_stage import SingleStage, is_single_stage
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.watching import SOURCE_COLUMN

_logger = logging.getLogger(__name__)
#: how often the stages of an epoch are repeated if rows between them were computed twice, or a dimension has changed
_REPEATS = 3
_LEFT_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs epochs on Spark. The input of an epoch is the frame of a micro-batch (see `input_frame`).

    `left_to_spark`: the newest epochs in a row whose files tasks could not read themselves.
    """

    session: SparkSession
    dimensions: Dimensions = field(default_factory=lambda: Dimensions({}))
    sources: Mapping[str, OpenSource] = field(default_factory=dict)
    left_to_spark: list[Epoch] = field(default_factory=list)

    def run_epoch(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        """Run the stages of one epoch. If tasks cannot read its files themselves, run them again on Spark's rows.

        After several such epochs in a row, later ones run on Spark's rows only.
        """
        if rows is None or not task.plan.direct:
            return self._run(task, rows)
        if len(self.left_to_spark) < _LEFT_IN_A_ROW:
            try:
                result = self._run(task, rows)
            except LeftToSparkError as error:
                _logger.info("Spark reads the files of epoch %d, as tasks cannot: %s", task.epoch, error)
                self.left_to_spark.append(task.epoch)
            else:
                self.left_to_spark.clear()
                return result
        by_spark = replace(task, plan=replace(task.plan, direct={}))
        return self._run(by_spark, self._rows_by_spark(by_spark.plan, files_of(rows, task), rows.sparkSession))

    def _rows_by_spark(
        self, plan: JobPlan, files: Mapping[str, Sequence[tuple[str, int]]], session: SparkSession
    ) -> DataFrame:
        frames = {}
        for name, of_source in files.items():
            source = self.sources[name]
            assert isinstance(source, FileSource), source
            frames[name] = source.rows_of(session, [path for path, _ in of_source])
        return input_frame(session, plan, frames)

    def _run(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        """Run the stages of one epoch, with the newest version of each dimension.

        If rows between two stages were computed twice, or files of a dimension have changed meanwhile, run them again.
        """
        # a micro-batch belongs to the session of its query, which has the settings and views of that query
        session = self.session if rows is None else rows.sparkSession
        changes: Mapping[str, str] = {}
        for is_last in [False] * _REPEATS + [True]:
            read = self.dimensions.newest(session)
            try:
                result = _EpochRun(session, task, read).result(rows)
            except PySparkException as error:
                changes = read.changes()
                if changes and is_last:
                    raise unstable(changes, _REPEATS + 1) from error
                if is_last or not (changes or is_computed_twice(error)):
                    raise
                continue
            changes = read.changes()
            if not changes:
                return replace(result, dimensions=read.names)
        raise unstable(changes, _REPEATS + 1)


@dataclass(frozen=True, slots=True)
class _EpochRun:
    """One epoch in one session."""

    session: SparkSession
    task: EpochTask
    read: VersionsRead

    @property
    def tables(self) -> Mapping[str, DataFrame]:
        """Return the rows of each dimension."""
        return self.read.frames

    def result(self, frame: DataFrame | None) -> EpochResult:
        """Run all stages.  frame: None for an epoch without input."""
        plan = self.task.plan
        with _held() as hold:
            if plan.maps and frame is not None:
                if joins_sources(plan):
                    frame = map_input(self.session, frame, plan, self.tables)
                mapped = run_maps(self.session, frame, self.task, self.tables)
                try:
                    run = replace(self, task=replace(self.task, seen=mapped.seen))
                    return run.run(_OfMaps(run, mapped.rows), hold, mapped.list_states)
                finally:
                    release(mapped.held)
            if frame is None:
                return self.run(_OfEntry(None), hold)
            if plan.direct:
                return self.run(_OfFiles(plan, files_of(frame, self.task)), hold)
            # Each action computes all rows of a micro-batch again. In batch mode, Spark prunes those of other entries.
            is_batch = self.task.settings.checkpoint_url is None
            if not plan.has_one_entry and not is_batch:
                frame = hold(frame)
            if joins_sources(plan):
                return self.run(_OfSources(self, frame), hold)
            return self.run(_OfEntry(frame) if plan.has_one_entry else _OfEntries(plan, frame), hold)

    def run(self, given: "_Input", hold: "_Hold", list_states: tuple[ListState, ...] | None = None) -> EpochResult:
        """Run the keyed stages in order, and then write the results that no stage writes."""
        task, plan = self.task, self.task.plan
        reports: dict[str, list[SubtaskReport]] = {}
        rows: dict[str, DataFrame] = {}  # of inner stages, by operator id
        for stage in plan.stages:
            if not _has_input(stage.reads, rows):
                continue  # it gets no rows, so it does not run and keeps its state
            subtask = subtasks(task, stage, tells_attempt=may_compute_twice(self.session))
            output = self._run_subtasks(self._blocks(task, stage, given, rows), subtask)
            if subtask.is_inner:
                # A stage writes runs, so it must run only once: persist its rows, as they are read twice.
                output = hold(output)
            with described(self.session, self.task.description(stage.operator_id)):
                reports[stage.operator_id] = _reports(output)
            task = after(task, reports[stage.operator_id])
            if subtask.is_inner and not subtask.waits_for_end:
                rows[stage.operator_id] = rows_of(output, reports[stage.operator_id])
        written = {
            name: self._write_rows(task, name, given, rows)
            for name, result in plan.rows_results.items()
            if _has_input(result.reads, rows)
        }
        return epoch_result(task, reports, written, list_states)

    def _rows_for(self, entry: str, given: "_Input", rows: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return the rows that a stage or a result reads: of sources, and of the stages in `rows`; None if of none."""
        reads, stage = self.task.plan.reader(entry)
        parts = []
        if reads.sources:
            part = given.rows(entry)
            parts += [] if part is None else [part]
        there = {name: rows[name] for name in reads.stages if name in rows}
        if there:
            parts.append(rows_read(self.session, reads, there, self.task.plan, stage, tables=self.tables))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts) if parts else None

    def _write_rows(
        self, task: EpochTask, name: str, given: "_Input", rows: Mapping[str, DataFrame]
    ) -> list[SubtaskReport]:
        write, report, parts = rows_task(task, name), spark_schema([REPORT_FIELD]), []
        files = given.files(entry_of(name))
        if files:
            tasks = deal_out(files, cores(self.session))
            direct = DirectRows(write, tasks, task.notes, rows_action(name))
            parts.append(self._numbers(len(tasks)).mapInArrow(direct, report))
        frame = self._rows_for(entry_of(name), given, rows)
        if frame is not None:
            parts.append(frame.mapInArrow(write, report))
        with described(self.session, self.task.description(rows_action(name))):
            return _reports(reduce(DataFrame.union, parts)) if parts else []

    def _blocks(
        self, task: EpochTask, stage: KeyedStage, given: "_Input", rows: Mapping[str, DataFrame]
    ) -> DataFrame | DirectMapSide:
        """Return the blocks of a stage as a frame; for small input, a map side that its subtasks run."""
        fold = map_side(task, stage)
        files = given.files(stage.operator_id)
        frame = self._rows_for(stage.operator_id, given, rows)
        parallelism = task.settings.parallelism_of(stage.operator_id)
        has_files = any(of_source for _, of_source in files)
        if frame is None and (not has_files or is_single_stage(effort_bytes(files), parallelism=parallelism)):
            return DirectMapSide(fold, one_task(files))
        parts = [] if frame is None else [frame.mapInArrow(fold, BLOCK_DDL)]
        if has_files:
            tasks = deal_out(files, cores(self.session))
            parts.append(self._numbers(len(tasks)).mapInArrow(DirectMapSide(fold, tasks), BLOCK_DDL))
        return reduce(DataFrame.union, parts)

    def _run_subtasks(self, blocks: DataFrame | DirectMapSide, subtask: SubtaskTask) -> DataFrame:
        """Return the output frame of a keyed stage."""
        schema = spark_schema(list(subtask.output_schema))
        if isinstance(blocks, DirectMapSide):
            return self._numbers(subtask.parallelism).mapInArrow(SingleStage(blocks, subtask), schema)
        return blocks.repartitionById(subtask.parallelism, F.col("subtask")).mapInArrow(subtask, schema)

    def _numbers(self, tasks: int) -> DataFrame:
        """Return a frame that gives each of so many tasks its number."""
        return self.session.range(0, tasks, 1, max(1, tasks))


def _has_input(reads: Reads, rows: Mapping[str, DataFrame]) -> bool:
    """Return whether a reader may get rows in this epoch: not if all that it reads are stages that wait for the end."""
    return bool(reads.sources) or any(name in rows for name in reads.stages)


class _Input(Protocol):
    """The input of an epoch, for each reader of sources (JobPlan.entries)."""

    def rows(self, entry: str) -> DataFrame | None:
        """Return the rows of sources for an entry; None if the epoch has no input, or tasks read its files."""

    def files(self, entry: str) -> FilesRead:
        """Return the files that tasks read for an entry."""
        del entry
        return ()


@dataclass(frozen=True, slots=True)
class _OfFiles(_Input):
    """The files of all sources, {source: (path, bytes) of each}."""

    plan: JobPlan
    by_source: Mapping[str, Sequence[tuple[str, int]]]

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return None

    @override
    def files(self, entry: str) -> FilesRead:
        return [(read, self.by_source[read.source]) for read in self.plan.direct.get(entry, ())]


@dataclass(frozen=True, slots=True)
class _OfEntry(_Input):
    """The frame of a job with one entry."""

    frame: DataFrame | None

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return self.frame


@dataclass(frozen=True, slots=True)
class _OfEntries(_Input):
    """The frame of a job with several entries, each with rows of its own."""

    plan: JobPlan
    frame: DataFrame | None

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return None if self.frame is None else entry_rows(self.frame, list(self.plan.entries).index(entry))


@dataclass(frozen=True, slots=True)
class _OfSources(_Input):
    """The rows of sources as they are, for a job whose sql joins them with dimensions."""

    run: _EpochRun
    frame: DataFrame

    @override
    def rows(self, entry: str) -> DataFrame | None:
        return joined_rows(self.run.session, self.frame, self.run.task.plan, entry, self.run.tables)


@dataclass(frozen=True, slots=True)
class _OfMaps(_Input):
    """The rows of the last map stage, which one stage or one result reads."""

    run: _EpochRun
    mapped: DataFrame

    @override
    def rows(self, entry: str) -> DataFrame | None:
        plan = self.run.task.plan
        reads, stage = plan.reader(entry)
        roots = {plan.maps[-1].operator_id: self.mapped}
        return rows_read(self.run.session, reads, roots, plan, stage, tables=self.run.tables)


_Hold = Callable[[DataFrame], DataFrame]


@contextmanager
def _held() -> Iterator[_Hold]:
    """Return a function that persists a frame until the end of the block."""
    frames: list[DataFrame] = []

    def hold(frame: DataFrame) -> DataFrame:
        frames.append(frame.persist())
        return frames[-1]

    try:
        yield hold
    finally:
        for frame in frames:
            frame.unpersist()


def files_of(frame: DataFrame, task: EpochTask) -> dict[str, list[tuple[str, int]]]:
    """Return (path, bytes) of each file that an epoch reads, by source.  frame: of `listed_files`."""
    names = task.plan.sources_read
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    if task.files is not None:
        return {name: [(path, file_bytes(path)) for path in map(path_of_url, task.files[name])] for name in names}
    for row in frame.collect():
        found[names[row[SOURCE_COLUMN]]].append((path_of_text(row.path), row.length))
    return found


def _reports(frame: DataFrame) -> list[SubtaskReport]:
    if len(frame.columns) > 1:  # rows for the next stage, and the reports
        frame = frame.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN)
    return [decode_report(bytes(row[0])) for row in frame.collect()]
