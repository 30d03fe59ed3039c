"""Runs the stages of an epoch on Spark, one after the other.

    source rows -> sql -> columns of a stage -> [map side] => [subtask] -> changelog -> sql -> ... => [subtask] -> sink

Map stages come first, and have their own module (map_stages.py). Up to the columns of the first stage, the frame is
part of the streaming query (input_frames.py). If the first stage needs nothing from Spark SQL, the query returns files
instead of rows, and the map side reads the files (direct.py). All later frames are built in `foreachBatch`, once per
epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import zip_longest

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.checkpoint.runs import put_in_place
from mixedmode.checkpoint.types import Epoch, Generation, ListState, OperatorState, PathTaken, RunFile, StagedFile
from mixedmode.executor.input_frames import stage_columns
from mixedmode.executor.map_stages import MapEpoch, release, run_maps
from mixedmode.executor.rows_between import is_computed_twice, may_compute_twice, rows_of
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.plan.stages import MAIN, JobPlan, KeyedStage
from mixedmode.profile import add_seconds
from mixedmode.sinks.files import SinkTask
from mixedmode.sources.parquet_files import assign_slices, file_bytes, path_of_text, path_of_url, whole_input
from mixedmode.spark.frames import apply_sql, spark_schema
from mixedmode.spark.session import cores
from mixedmode.state import merging
from mixedmode.tasks.direct import DirectMapSide
from mixedmode.tasks.exchange import (
    BLOCK_DDL,
    MapSide,
)
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD
from mixedmode.tasks.memory import path_for, share_memory, slice_bytes
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.rows import RowsTask
from mixedmode.tasks.single_stage import SingleStage, is_single_stage
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.task_state import StateTask
from mixedmode.tasks.timing import Timing
from mixedmode.tasks.watching import Watch, Watched

REPORT_FIELD = pa.field(REPORT_COLUMN, pa.binary())
_REPEATS = 3  # how often the stages of an epoch are repeated if rows between them were computed twice


@dataclass(frozen=True, slots=True)
class StageSettings:
    """The settings of an epoch that do not depend on its input.

    `checkpoint_url` is None in batch mode. `sinks`: by output name. `step_parallelism`: {operator id: number of
    subtasks}, only of steps with their own number.
    """

    parallelism: int
    max_parallelism: int
    sort_memory_bytes: int
    checkpoint_url: str | None
    generation: Generation
    sinks: Mapping[str, SinkTask]
    emits_running_results: bool = False  # in backlog
    step_parallelism: Mapping[str, int] = field(default_factory=dict)

    def parallelism_of(self, operator_id: str) -> int:
        """Return the number of subtasks of a step."""
        return self.step_parallelism.get(operator_id, self.parallelism)


@dataclass(frozen=True, slots=True)
class EpochTask:
    """One epoch to run: its number, path and timing, and the state after the previous epoch.

    `with_full_snapshot`: steps that emit their whole stored table, because a downstream step or output is new.
    `lists`: of map stages. `files`: URIs of the input files; None: Spark lists them. `seen`: the progress of the
    sources, as map stages measured it.
    """

    epoch: Epoch
    path: PathTaken
    timing: Timing
    state: Sequence[OperatorState] = ()
    with_full_snapshot: frozenset[str] = frozenset()
    lists: Sequence[ListState] = ()
    files: tuple[str, ...] | None = None
    seen: Progress = Progress()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class EpochResult:
    """The results of the tasks of one epoch, ready for a manifest.

    `migration_seconds` is the time of the slowest subtask. `profile`: {stage: seconds of work, added up over tasks}.
    """

    progress: Progress
    rows_out: int
    skipped: int
    pairs: int
    spilled_runs: int
    migration_seconds: float
    operators: tuple[OperatorState, ...]
    outputs: tuple[StagedFile, ...]
    list_states: tuple[ListState, ...] = ()
    profile: Mapping[str, float] = field(default_factory=dict)


def run_stages(
    session: SparkSession, frame: DataFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> EpochResult:
    """Run one epoch over `frame` (see `input_frame`); None for an epoch without input."""
    for _ in range(_REPEATS):
        try:
            return _run_once(session, frame, plan, settings, task)
        except PySparkException as error:
            if not is_computed_twice(error):
                raise
    return _run_once(session, frame, plan, settings, task)


def _run_once(
    session: SparkSession, frame: DataFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> EpochResult:
    if not plan.maps or frame is None:
        return replace(_run_keyed(session, frame, plan, settings, task), list_states=tuple(task.lists))
    given = MapEpoch(
        task.epoch, task.timing, task.lists, keeps=settings.checkpoint_url is not None, watch=_watch(plan, task)
    )
    parallelism = {stage.operator_id: settings.parallelism_of(stage.operator_id) for stage in plan.maps}
    mapped = run_maps(session, frame, plan.maps, parallelism, given)
    try:
        steps = plan.stages[0].sql if plan.stages else plan.sql
        rows = apply_sql(session, mapped.rows, steps)
        columns = stage_columns(rows, plan.stages[0]) if plan.stages else rows
        task = replace(task, seen=mapped.seen)
        return replace(_run_keyed(session, columns, plan, settings, task), list_states=mapped.list_states)
    finally:
        release(mapped.held)


def _watch(plan: JobPlan, task: EpochTask) -> Watch | None:
    """Return how the first map stage measures the progress of the source; None if no step needs it."""
    if not plan.strategies:
        return None
    return Watch(Watched.APART if plan.source_rows is None else Watched.ROWS, plan.progress_names, task.timing)


def _run_keyed(
    session: SparkSession, frame: DataFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> EpochResult:
    """Run the keyed stages over the columns of the first one. A job without keyed stages writes rows to the sink."""
    if not plan.stages:
        reports = _write_rows(frame, plan, settings, task)
        return _result(plan, [reports], task.state)
    blocks = _first_blocks(session, frame, plan, settings, task)
    runs_before = {operator.operator_id: operator.runs for operator in task.state}
    all_reports = []
    held: list[DataFrame] = []
    try:
        for stage, following in zip(plan.stages, [*plan.stages[1:], None], strict=True):
            is_inner = following is not None or bool(plan.sql)
            subtask = _subtask_task(stage, settings, task, runs_before, is_inner=is_inner)
            if is_inner and may_compute_twice(session):
                subtask = replace(subtask, output_schema=_with_attempt(subtask.output_schema))
            output = _run_subtasks(session, blocks, subtask)
            if is_inner:
                # A stage writes runs, so it must run only once: persist its rows, as they are read twice.
                output = output.persist()
                held.append(output)
            all_reports.append(_reports(output))
            if subtask.waits_for_end:
                break  # later stages get no rows, so they do not run and keep their state
            if following is not None:
                given = rows_of(output, all_reports[-1])
                rows = stage_columns(_changelog(session, given, following), following)
                blocks = rows.mapInArrow(_map_side(following, plan, settings, task), BLOCK_DDL)
        if plan.sql and not subtask.waits_for_end:
            rows = rows_of(output, all_reports[-1]).drop(WEIGHT_COLUMN)
            all_reports.append(_write_rows(apply_sql(session, rows, plan.sql), plan, settings, task))
    finally:
        for output in held:
            output.unpersist()
    return _result(plan, all_reports, task.state)


def _write_rows(
    frame: DataFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> list[SubtaskReport]:
    if frame is None:
        return []
    name = plan.progress_names[0]
    rows = RowsTask(settings.sinks[MAIN], task.epoch, settings.generation, plan.output_fields, name)
    return _reports(frame.mapInArrow(rows, spark_schema([REPORT_FIELD])))


def _first_blocks(
    session: SparkSession, frame: DataFrame | None, plan: JobPlan, settings: StageSettings, task: EpochTask
) -> DataFrame | DirectMapSide:
    """Return the blocks of the first keyed stage as a frame; for small input, a map side that its subtasks run."""
    stage = plan.stages[0]
    map_side = _map_side(stage, plan, settings, task)
    if frame is not None and not plan.reads:
        return frame.mapInArrow(map_side, BLOCK_DDL)
    files = [] if frame is None else _files(frame, task)
    input_bytes = sum(length for _, length in files)
    if is_single_stage(input_bytes, parallelism=settings.parallelism_of(stage.operator_id)):
        return DirectMapSide(map_side, plan.reads, whole_input(files))
    tasks = assign_slices(files, cores(session))
    numbers = session.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(DirectMapSide(map_side, plan.reads, tuple(tasks)), BLOCK_DDL)


def _run_subtasks(session: SparkSession, blocks: DataFrame | DirectMapSide, subtask: SubtaskTask) -> DataFrame:
    """Return the output frame of a keyed stage."""
    schema = spark_schema(list(subtask.output_schema))
    if isinstance(blocks, DirectMapSide):
        numbers = session.range(0, subtask.parallelism, 1, subtask.parallelism)
        return numbers.mapInArrow(SingleStage(blocks, subtask), schema)
    return blocks.repartitionById(subtask.parallelism, F.col("subtask")).mapInArrow(subtask, schema)


def _files(frame: DataFrame, task: EpochTask) -> list[tuple[str, int]]:
    """Return (path, bytes) of each file that an epoch reads."""
    if task.files is None:
        return [(path_of_text(row.path), row.length) for row in frame.collect()]
    return [(path, file_bytes(path)) for path in map(path_of_url, task.files)]


def _map_side(stage: KeyedStage, plan: JobPlan, settings: StageSettings, task: EpochTask) -> MapSide:
    return MapSide(
        stage=_in_this_epoch(stage, settings, task),
        sources=plan.progress_names,
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        slice_bytes=slice_bytes(settings.sort_memory_bytes, stage.operator.attributes),
        timing=task.timing,
        watched=_watched(stage, plan),
    )


def _watched(stage: KeyedStage, plan: JobPlan) -> Watched:
    """Return where the map tasks of a stage find the event times of the sources."""
    if stage is not plan.stages[0] or (plan.maps and plan.strategies):
        return Watched.BEFORE
    return Watched.APART if plan.source_rows is None else Watched.ROWS


def _subtask_task(
    stage: KeyedStage,
    settings: StageSettings,
    task: EpochTask,
    runs_before: Mapping[str, tuple[RunFile, ...]],
    *,
    is_inner: bool,
) -> SubtaskTask:
    attributes, state = stage.operator.attributes, None
    if settings.checkpoint_url is not None:
        state = StateTask(settings.checkpoint_url, runs_before.get(stage.operator_id, ()), merging.FAN_IN)
    rows = () if not is_inner else (*stage.operator.output_fields, pa.field(WEIGHT_COLUMN, pa.int64()))
    return SubtaskTask(
        stage=_in_this_epoch(stage, settings, task),
        epoch=task.epoch,
        generation=settings.generation,
        path=path_for(attributes, task.path),
        timing=task.timing,
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        memory=share_memory(settings.sort_memory_bytes, attributes, task.path),
        state=state,
        sinks={name: sink for name, sink in settings.sinks.items() if name != MAIN or not is_inner},
        waits_for_end=_waits_for_end(stage, task),
        output_schema=pa.schema([*rows, REPORT_FIELD]),
        seen=task.seen,
    )


def _waits_for_end(stage: KeyedStage, task: EpochTask) -> bool:
    return stage.operator.attributes.output_only_after_end_of_stream and not task.timing.is_final


def _in_this_epoch(stage: KeyedStage, settings: StageSettings, task: EpochTask) -> KeyedStage:
    if stage.operator_id in task.with_full_snapshot:
        stage = stage.with_full_snapshot()
    return stage.with_running_results() if settings.emits_running_results and task.timing.is_backlog else stage


def _with_attempt(schema: pa.Schema) -> pa.Schema:
    return schema.insert(len(schema) - 1, ATTEMPT_FIELD)


def _changelog(session: SparkSession, rows: DataFrame, following: KeyedStage) -> DataFrame:
    """Return the changelog of a stage as the next stage reads it, after the sql between them.

    The sql runs on rows of each weight (-1 retracts, +1 adds) separately. For example, when count 4 of a key becomes
    5, `SELECT k, n * 2` turns (k, 4, -1), (k, 5, +1) into (k, 8, -1), (k, 10, +1).
    """
    if not following.sql:
        return rows
    sides = [
        apply_sql(session, rows.where(F.col(WEIGHT_COLUMN) == weight).drop(WEIGHT_COLUMN), following.sql).withColumn(
            WEIGHT_COLUMN, F.lit(weight).cast("long")
        )
        for weight in (-1, 1)
    ]
    return sides[0].unionByName(sides[1])


def _reports(frame: DataFrame) -> list[SubtaskReport]:
    if len(frame.columns) > 1:  # rows for the next stage, and the reports
        frame = frame.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN)
    return [decode_report(bytes(row[0])) for row in frame.collect()]


def _result(plan: JobPlan, reports: Sequence[list[SubtaskReport]], before: Sequence[OperatorState]) -> EpochResult:
    every = [report for stage_reports in reports for report in stage_reports]
    state_before = {operator.operator_id: operator for operator in before}
    runs_before = {operator.operator_id: operator.runs for operator in before}
    operators = []
    for stage, stage_reports in zip_longest(plan.stages, reports[: len(plan.stages)]):
        if not stage.operator.states:
            continue
        if stage_reports is None:  # the stage did not run, so its state is unchanged
            operators += [state_before[stage.operator_id]] if stage.operator_id in state_before else []
            continue
        new = [run for report in sorted(stage_reports, key=lambda r: r.subtask) for run in report.runs]
        merged = [replacement for report in stage_reports for replacement in report.merged]
        kept = put_in_place(runs_before.get(stage.operator_id, ()), merged)
        operators.append(
            OperatorState(stage.operator_id, stage.state_schema(), (*kept, *new), parallelism=len(stage_reports))
        )
    return EpochResult(
        progress=_progress(plan, reports[0]),
        rows_out=sum(report.rows_out for report in reports[-1]),
        skipped=sum(report.skipped for report in every),
        pairs=sum(report.pairs for report in every),
        spilled_runs=sum(report.spilled_runs for report in every),
        migration_seconds=max((report.migration_seconds for report in every), default=0.0),
        operators=tuple(operators),
        outputs=tuple(output for report in sorted(every, key=lambda r: r.subtask) for output in report.outputs),
        profile=add_seconds(*(report.profile for report in every)),
    )


def _progress(plan: JobPlan, reports: Sequence[SubtaskReport]) -> Progress:
    """Return the progress of the epoch. Every subtask reports all of it; tasks that only write rows report a part."""
    if plan.stages:
        return reports[0].progress
    return reduce(Progress.merged, (report.progress for report in reports), Progress())
