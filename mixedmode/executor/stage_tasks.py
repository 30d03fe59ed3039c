"""The tasks of an epoch's stages, and the result that their reports add up to. Pure: for every executor."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest

import pyarrow as pa

from mixedmode.checkpoint.runs import put_in_place
from mixedmode.checkpoint.types import ListState, OperatorState
from mixedmode.errors import InvalidJobError
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.plan.stages import MAIN, JobPlan, KeyedStage, MapStage
from mixedmode.profile import add_seconds
from mixedmode.state.lists import redistribute, rescaling_problem
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD
from mixedmode.tasks.map_task import MapTask
from mixedmode.tasks.memory import path_for, share_memory, slice_bytes
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport
from mixedmode.tasks.rows import RowsTask
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.tasks.task_state import StateTask
from mixedmode.tasks.watching import Watch, Watched

__all__ = ["REPORT_FIELD", "after", "epoch_result", "map_side", "map_subtasks", "map_watch", "rows_task", "subtasks"]

REPORT_FIELD = pa.field(REPORT_COLUMN, pa.binary())


def map_watch(task: EpochTask) -> Watch | None:
    """Return how the first map stage measures the progress of the sources; None if no step needs it."""
    plan = task.plan
    if not plan.strategies:
        return None
    return Watch(Watched.APART if plan.source_rows is None else Watched.ROWS, plan.progress_names, task.timing)


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
        is_backlog=task.timing.is_backlog,
        clock_ms=task.timing.clock_ms,
        watermark_us=task.timing.before.watermark_us,
        lists=redistribute(lists, stage.redistribution, parallelism),
        tells_attempt=tells_attempt,
    )


def map_side(task: EpochTask, stage: KeyedStage) -> MapSide:
    """Return the map side of a keyed stage."""
    settings = task.settings
    return MapSide(
        stage=_in_this_epoch(task, stage),
        sources=task.plan.progress_names,
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        slice_bytes=slice_bytes(settings.sort_memory_bytes, stage.operator.attributes),
        timing=task.timing,
        watched=_watched(task.plan, stage),
        counts_records=stage is task.plan.stages[0],
        notes=task.notes,
    )


def subtasks(task: EpochTask, stage: KeyedStage, *, tells_attempt: bool = False) -> SubtaskTask:
    """Return the subtasks of a keyed stage.

    tells_attempt: the rows for the next stage carry the id of their attempt (tasks/inner_rows.py).
    """
    attributes, settings, state = stage.operator.attributes, task.settings, None
    is_inner = stage is not task.plan.stages[-1] or bool(task.plan.sql)
    if settings.checkpoint_url is not None:
        state = StateTask(settings.checkpoint_url, task.runs_of(stage.operator_id), settings.fan_in)
    rows = stage.emitted_fields if is_inner else ()
    names = {*stage.side_outputs, *([] if is_inner else [MAIN])}
    return SubtaskTask(
        stage=_in_this_epoch(task, stage),
        epoch=task.epoch,
        generation=settings.generation,
        path=path_for(attributes, task.path),
        timing=task.timing,
        parallelism=settings.parallelism_of(stage.operator_id),
        max_parallelism=settings.max_parallelism,
        memory=share_memory(settings.sort_memory_bytes, attributes, task.path),
        state=state,
        sinks={name: sink for name, sink in settings.sinks.items() if name in names},
        waits_for_end=attributes.output_only_after_end_of_stream and not task.timing.is_final,
        output_schema=pa.schema([*rows, *([ATTEMPT_FIELD] * (is_inner and tells_attempt)), REPORT_FIELD]),
        seen=task.seen,
        notes=task.notes,
    )


def rows_task(task: EpochTask) -> RowsTask:
    """Return the tasks that write rows to the main output, if no keyed stage does."""
    plan, settings = task.plan, task.settings
    return RowsTask(settings.sinks[MAIN], task.epoch, settings.generation, plan.output_fields, plan.progress_names[0])


def after(task: EpochTask, reports: Sequence[SubtaskReport]) -> EpochTask:
    """Return the task for the stages downstream of the one with these reports. They know the progress of the epoch."""
    return replace(task, seen=reports[0].progress)


def epoch_result(
    task: EpochTask, reports: Sequence[Sequence[SubtaskReport]], list_states: Sequence[ListState] | None = None
) -> EpochResult:
    """Return the result of an epoch.

    reports: of each keyed stage that ran, in order; then, if no keyed stage writes the main output, of the tasks that
    do. list_states: of map stages; None if they did not run, so that the lists are unchanged.
    """
    every = [report for stage_reports in reports for report in stage_reports]
    return EpochResult(
        progress=_progress(task.plan, reports[: len(task.plan.stages) or 1]),
        rows_out=sum(report.rows_out for report in reports[-1]),
        skipped=sum(report.skipped for report in every),
        pairs=sum(report.pairs for report in every),
        spilled_runs=sum(report.spilled_runs for report in every),
        migration_seconds=max((report.migration_seconds for report in every), default=0.0),
        operators=tuple(_operator_states(task, reports)),
        outputs=tuple(output for report in sorted(every, key=lambda r: r.subtask) for output in report.outputs),
        list_states=tuple(task.lists if list_states is None else list_states),
        profile=add_seconds(*(report.profile for report in every)),
    )


def _operator_states(task: EpochTask, reports: Sequence[Sequence[SubtaskReport]]) -> list[OperatorState]:
    stages, found = task.plan.stages, list[OperatorState]()
    for stage, stage_reports in zip_longest(stages, reports[: len(stages)]):
        if not stage.operator.states:
            continue
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


def _progress(plan: JobPlan, reports: Sequence[Sequence[SubtaskReport]]) -> Progress:
    """Return the progress of the epoch.

    Every subtask reports all of it, with that of the stages before; tasks that only write rows report a part.
    """
    if plan.stages:
        return reports[-1][0].progress
    return reduce(Progress.merged, (report.progress for report in reports[0]), Progress())


def _watched(plan: JobPlan, stage: KeyedStage) -> Watched:
    """Return where the map tasks of a stage find the event times of the sources."""
    if stage is not plan.stages[0] or (plan.maps and plan.strategies):
        return Watched.BEFORE
    return Watched.APART if plan.source_rows is None else Watched.ROWS


def _in_this_epoch(task: EpochTask, stage: KeyedStage) -> KeyedStage:
    if stage.operator_id in task.with_full_snapshot:
        stage = stage.with_full_snapshot()
    return stage.with_running_results() if task.settings.emits_running_results and task.timing.is_backlog else stage
