"""The tasks of an epoch's stages, and the result that their reports add up to. Pure: for every executor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from mixedmode.checkpoint.runs import put_in_place
from mixedmode.checkpoint.types import JoinFigures, ListState, OperatorState
from mixedmode.errors import InvalidJobError
from mixedmode.executor.inner_folds import folding_reader
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.operators.aggregate import UpsertOperator
from mixedmode.operators.fan_out import FanOut
from mixedmode.operators.join import LEFT, RIGHT, JoinBase
from mixedmode.plan.job_plan import JobPlan, entry_of
from mixedmode.plan.stages import KeyedStage, MapStage
from mixedmode.profile import add_seconds
from mixedmode.state.lists import redistribute, rescaling_problem
from mixedmode.tasks.block_rows import BLOCK_SCHEMA
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.held_rows import RowBlocks
from mixedmode.tasks.inner_reads import InnerFold
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD, BLOCK_FIELD
from mixedmode.tasks.map_task import MapTask
from mixedmode.tasks.measuring import MeasureTask
from mixedmode.tasks.memory import share_memory, slice_bytes, strategy_for
from mixedmode.tasks.partners import Partners
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport
from mixedmode.tasks.rows import RowsTask
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.task_state import StateTask
from mixedmode.tasks.watching import Watch, Watched

__all__ = [
    "REPORT_FIELD",
    "epoch_result",
    "inner_fold",
    "map_side",
    "map_subtasks",
    "map_watch",
    "measure_task",
    "rows_task",
    "subtasks",
    "with_progress",
]

_INNER_SLICES = 4
REPORT_FIELD = pa.field(REPORT_COLUMN, pa.binary())


def map_watch(task: EpochTask) -> Watch | None:
    """Return how the first map stage measures the progress of the sources; None if no step needs it."""
    plan = task.plan
    if not plan.strategies:
        return None
    watched = Watched.APART if plan.source_rows is None else Watched.ROWS
    return Watch(watched, plan.progress_names, task.timing, partitioned=tuple(plan.partitions))


def map_subtasks(task: EpochTask, stage: MapStage, *, tells_attempt: bool) -> MapTask:
    """Return the subtasks of a map stage. Raise InvalidJobError if the stored lists cannot be redistributed."""
    lists = next((state.lists for state in task.lists if state.operator_id == stage.operator_id), ())
    parallelism = task.settings.parallelism_of(stage.operator_id)
    problem = rescaling_problem(stage.operator_id, lists, stage.redistribution, parallelism)
    if problem is not None:
        raise InvalidJobError(problem)
    return MapTask(
        operator=stage.operator,
        epoch=task.epoch,
        is_backlog=task.timing.backlog >= set(task.plan.sources_read),
        clock_ms=task.timing.clock_ms,
        watermark_us=task.timing.before.watermark_us,
        lists=redistribute(lists, stage.redistribution, parallelism),
        tells_attempt=tells_attempt,
    )


def inner_fold(task: EpochTask, operator_id: str) -> InnerFold | None:
    """Return the map side of the only reader of a stage, for the subtasks of the stage; None if it is by itself.

    The slices of the input are smaller than in a task of its own: the subtask needs most of the memory.
    """
    reader = folding_reader(task.plan, operator_id)
    if reader is None:
        return None
    own = map_side(task, reader)
    queries = task.plan.inner[reader.operator_id][operator_id]
    return InnerFold(replace(own, slice_bytes=max(1, own.slice_bytes // _INNER_SLICES)), queries)


def map_side(task: EpochTask, stage: KeyedStage, partners: Partners | None = None) -> MapSide:
    """Return the map side of a keyed stage.  partners: of a join, to leave out rows that find none."""
    settings, plan = task.settings, task.plan
    return MapSide(
        stage=_in_this_epoch(task, stage),
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        slice_bytes=slice_bytes(settings.sort_memory_bytes, stage.operator.attributes),
        timing=task.timing_of(stage),
        watch=_watch(task, _watched(plan, stage)),
        counts_records=plan.has_one_entry and stage is plan.stages[0],
        notes=task.notes,
        partners=partners,
        blocks_folder=task.blocks_folder,
    )


def subtasks(
    task: EpochTask,
    stage: KeyedStage,
    *,
    tells_attempt: bool = False,
    in_blocks: bool = False,
    are_held: bool = False,
) -> SubtaskTask:
    """Return the subtasks of a keyed stage.

    Of the rows for other stages (tasks/inner_rows.py): tells_attempt: they carry the id of their attempt. in_blocks:
    they are blocks; those of the only reader if its map side can run in the same tasks. are_held: the driver holds the
    blocks, so that large ones are in files.
    """
    attributes, settings, state = stage.operator.attributes, task.settings, None
    is_inner, strategy = task.plan.is_inner(stage.operator_id), strategy_for(attributes, task.strategy_of(stage))
    if settings.checkpoint_url is not None:
        state = StateTask(settings.checkpoint_url, task.runs_of(stage.operator_id), settings.fan_in)
    fold: InnerFold | RowBlocks | None = inner_fold(task, stage.operator_id) if in_blocks else None
    if in_blocks and are_held and fold is None and task.blocks_folder is not None:
        fold = RowBlocks(task.blocks_folder)
    rows: Iterable[pa.Field] = ()
    if is_inner:
        rows = (BLOCK_SCHEMA if fold else [BLOCK_FIELD]) if in_blocks else stage.emitted_fields
    results = task.plan.results_of(stage.operator_id)
    names = {*stage.side_outputs, *results}
    return SubtaskTask(
        stage=_in_this_epoch(task, stage),
        epoch=task.epoch,
        generation=settings.generation,
        strategy=strategy,
        timing=task.timing_of(stage),
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        memory=share_memory(settings.sort_memory_bytes, attributes, strategy),
        state=state,
        sinks={name: sink for name, sink in settings.sinks.items() if name in names},
        results=results,
        is_inner=is_inner,
        waits_for_end=attributes.output_only_after_end_of_stream and not task.timing.is_final,
        output_schema=pa.schema([*rows, *([ATTEMPT_FIELD] * (is_inner and tells_attempt)), REPORT_FIELD]),
        seen=task.seen,
        notes=task.notes,
        fold=fold,
    )


def rows_task(task: EpochTask, name: str) -> RowsTask:
    """Return the tasks that write the rows of a result which no keyed stage writes.  name: of the result."""
    plan, settings = task.plan, task.settings
    is_first = plan.measured_by == entry_of(name)
    counts, watches = is_first and plan.has_one_entry, is_first and not plan.has_one_entry
    return RowsTask(
        settings.sinks[name],
        task.epoch,
        settings.generation,
        plan.results[name].fields,
        name,
        counted_as=plan.progress_names[0] if counts else None,
        watch=_watch(task, Watched.APART) if watches else None,
    )


def measure_task(task: EpochTask) -> MeasureTask:
    """Return the tasks that measure the progress of the sources before the stages run (JobPlan.measures_first)."""
    return MeasureTask(_watch(task, Watched.APART))


def with_progress(task: EpochTask, reports: Iterable[SubtaskReport]) -> EpochTask:
    """Return the task for the stages that run after the sources were measured.  reports: of the tasks that measured."""
    return replace(task, seen=reduce(Progress.merged, (report.progress for report in reports), Progress()))


def epoch_result(
    task: EpochTask,
    stages: Mapping[str, Sequence[SubtaskReport]],
    rows: Mapping[str, Sequence[SubtaskReport]],
    list_states: Sequence[ListState] | None = None,
) -> EpochResult:
    """Return the result of an epoch.

    stages: {operator id: reports} of the keyed stages that ran. rows: {name: reports} of the results that other tasks
    wrote. list_states: of map stages; None if they did not run, so that the lists are unchanged.
    """
    every = [report for reports in (*stages.values(), *rows.values()) for report in reports]
    progress = _progress(stages, rows, Progress() if task.plan.measured_by is not None else task.seen)
    return EpochResult(
        progress=progress,
        rows_out=_rows_out(task.plan, stages, rows),
        skipped=sum(report.skipped for report in every),
        pairs=sum(report.pairs for report in every),
        spilled_runs=sum(report.spilled_runs for report in every),
        migration_seconds=max((report.migration_seconds for report in every), default=0.0),
        operators=tuple(_operator_states(task, stages)),
        outputs=tuple(output for report in sorted(every, key=lambda r: r.subtask) for output in report.outputs),
        list_states=tuple(task.lists if list_states is None else list_states),
        profile=add_seconds(*(report.profile for report in every)),
        joins=_joins(task.plan, stages, progress),
    )


def _joins(plan: JobPlan, stages: Mapping[str, Sequence[SubtaskReport]], progress: Progress) -> dict[str, JoinFigures]:
    found = {}
    for stage in plan.stages:
        if isinstance(stage.operator, JoinBase) and stage.operator_id in stages:
            fan_out = FanOut()
            fan_out.add(FanOut(rows={0: progress.left_out.get(stage.operator_id, 0)}))
            for report in stages[stage.operator_id]:
                fan_out.add(report.fan_out)
            left, right = (progress.late_of_sides.get((stage.operator_id, side), 0) for side in (LEFT, RIGHT))
            found[stage.operator_id] = JoinFigures((left, right), fan_out.greatest, fan_out.percentile(0.99))
    return found


def _operator_states(task: EpochTask, reports: Mapping[str, Sequence[SubtaskReport]]) -> list[OperatorState]:
    found = list[OperatorState]()
    for stage in task.plan.stages:
        if not stage.operator.states:
            continue
        stage_reports = reports.get(stage.operator_id)
        if stage_reports is None:  # the stage did not run, so its state is unchanged
            found += [operator for operator in task.state if operator.operator_id == stage.operator_id]
            continue
        new = [run for report in sorted(stage_reports, key=lambda r: r.subtask) for run in report.runs]
        merged = [replacement for report in stage_reports for replacement in report.merged]
        kept = put_in_place(task.runs_of(stage.operator_id), merged)
        found.append(
            OperatorState(stage.operator_id, stage.state_schema(), (*kept, *new), parallelism=len(stage_reports))
        )
    return found


def _progress(
    stages: Mapping[str, Sequence[SubtaskReport]], rows: Mapping[str, Sequence[SubtaskReport]], measured: Progress
) -> Progress:
    """Return the progress of the epoch.  measured: by tasks that belong to no keyed stage and to no result.

    Every subtask reports what all map tasks of its stage have seen; a task that writes rows reports its own part.
    """
    found = [reports[0].progress for reports in stages.values()]
    found += [report.progress for reports in rows.values() for report in reports]
    return reduce(Progress.merged, found, measured)


def _rows_out(
    plan: JobPlan, stages: Mapping[str, Sequence[SubtaskReport]], rows: Mapping[str, Sequence[SubtaskReport]]
) -> int:
    written = [reports for name, reports in stages.items() for _ in plan.results_of(name)]
    return sum(report.rows_out for reports in (*written, *rows.values()) for report in reports)


def _watch(task: EpochTask, watched: Watched) -> Watch:
    plan = task.plan
    sides = plan.source_rows.sides if plan.source_rows is not None else ()
    return Watch(
        watched,
        plan.progress_names,
        task.timing,
        counts_records=not plan.has_one_entry,
        sides=sides,
        partitioned=tuple(plan.partitions),
    )


def _watched(plan: JobPlan, stage: KeyedStage) -> Watched:
    """Return where the map tasks of a stage find the event times of the sources."""
    if plan.measured_by != stage.operator_id:
        return Watched.BEFORE
    return Watched.APART if plan.source_rows is None else Watched.ROWS


def _in_this_epoch(task: EpochTask, stage: KeyedStage) -> KeyedStage:
    if stage.operator_id in task.with_full_snapshot:
        stage = stage.with_full_snapshot()
    wants_all = task.settings.emits_running_results and task.timing_of(stage).is_backlog
    return stage.with_running_results() if wants_all and not _feeds_upserts(task.plan, stage) else stage


def _feeds_upserts(plan: JobPlan, stage: KeyedStage) -> bool:
    """Return whether upserts are made of the rows of a stage. That needs at most one change of a row in an epoch."""
    readers = [reader for reader in plan.stages if stage.operator_id in reader.reads.stages]
    return any(isinstance(reader.operator, UpsertOperator) for reader in readers)
