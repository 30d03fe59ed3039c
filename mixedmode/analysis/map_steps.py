"""Steps with map: from a step of a job to a stage of its plan, and whether a job may go on from the lists it has kept.

The one idea: whatever a later epoch would refuse is refused at the start, above all a list that nobody may hand on
where the number of subtasks is known to change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mixedmode.analysis.keyed_steps import declared_fields
from mixedmode.checkpoint.types import ListState
from mixedmode.config import JobSpec, MapStep, SqlStep
from mixedmode.config.modes import resolve_mode
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.operators.map import MapOperator, MapReference
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import JobPlan, MapStage, SqlText
from mixedmode.spark.frames import arrow_fields
from mixedmode.state.lists import rescaling_problem

__all__ = ["MapInput", "check_items", "check_subtasks", "map_stage"]


@dataclass(frozen=True, slots=True)
class MapInput:
    """What a step with map is built on: a streaming stand-in of its input, and the sql steps that give it.

    `maps_before` is the number of steps with map before it; `sources_read` are the sources that the job reads;
    `parallelism` is how many subtasks the step has while live.
    """

    frame: DataFrame
    sql: tuple[SqlText, ...]
    maps_before: int
    sources_read: Sequence[str]
    parallelism: int


def map_stage(step: MapStep, given: MapInput, spec: JobSpec, where: Where) -> MapStage:
    """The stage of a step. `where` names a place in it. Raises InvalidJobError with the place when it cannot be had."""
    _check_sources(given.sources_read, spec, where)
    fields = declared_fields(step.output, where("output"))
    operator = MapOperator(
        operator_id=operator_id(step, given.maps_before),
        function=MapReference.parse(step.map, step.args, step.folder),
        record_fields=tuple(arrow_fields(given.frame.schema)),
        output_fields=fields,
    )
    try:
        declared = operator.declaration()
    except InvalidJobError as error:
        msg = f"{where('map')}: {error}"
        raise InvalidJobError(msg) from error
    stage = MapStage(operator.operator_id, given.sql, operator, declared.keeps_list, declared.redistribution)
    if stage.keeps_list and stage.redistribution is None:
        _check_fixed(spec, step, given.parallelism, where)
    return stage


def check_items(plan: JobPlan, kept: Sequence[ListState]) -> None:
    """Raises InvalidJobError when a function cannot read the list that an earlier version of it has kept."""
    for stage, state in _kept(plan, kept):
        try:
            stage.operator.check_items(state.lists)
        except InvalidJobError as error:
            msg = f"{error}, step={stage.operator_id}"
            raise InvalidJobError(msg) from error


def check_subtasks(plan: JobPlan, kept: Sequence[ListState], parallelism: Callable[[str], int]) -> None:
    """Raises InvalidJobError when the job has other numbers of subtasks than its lists allow.

    parallelism: of a step, by its operator id.
    """
    for stage, state in _kept(plan, kept):
        wanted = parallelism(stage.operator_id)
        problem = rescaling_problem(stage.operator_id, state.lists, stage.redistribution, wanted)
        if problem is not None:
            raise InvalidJobError(problem)


def _kept(plan: JobPlan, kept: Sequence[ListState]) -> Iterator[tuple[MapStage, ListState]]:
    """The steps that have kept a list."""
    states = {state.operator_id: state for state in kept}
    for stage in plan.maps:
        if stage.keeps_list and stage.operator_id in states:
            yield stage, states[stage.operator_id]


def _check_sources(sources_read: Sequence[str], spec: JobSpec, where: Where) -> None:
    """The keyed steps tell the sources' records apart, and rows of a function do not say where they come from."""
    has_keyed = any(not isinstance(step, SqlStep | MapStep) for step in spec.steps)
    if len(sources_read) > 1 and has_keyed:
        msg = (
            f"{where('map')}: a step with map takes one source where a keyed step follows, because its rows do not say "
            "which source they come from, and each source has a watermark of its own. Read one source, or leave the "
            f"map step to a job of its own. sources={', '.join(sources_read)}"
        )
        raise InvalidJobError(msg)


def _check_fixed(spec: JobSpec, step: MapStep, parallelism: int, where: Where) -> None:
    """A list that must stay with its subtask, in a job whose settings change the number of subtasks."""
    if resolve_mode(spec).mode == "batch":
        return
    why = None
    backlog = spec.execution.backlog.parallelism
    if backlog is not None and backlog != parallelism:
        why = f"execution.backlog.parallelism={backlog}, and {parallelism} while live"
    elif spec.execution.autoscaler.enabled and step.parallelism is None:
        why = "execution.autoscaler.enabled=true"
    if why is not None:
        msg = (
            f"{where('map')}: the function keeps a list per subtask, and does not say what becomes of the lists when "
            "their number changes, which it does in this job. Declare `redistribution` in the class as 'split' or "
            f"'union', or let the step have one parallelism throughout. map={step.map}, {why}"
        )
        raise InvalidJobError(msg)
