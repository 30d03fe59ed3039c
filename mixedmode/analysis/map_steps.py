"""Makes a stage of the plan from a step with map, and checks that a job may go on from its stored lists.

The checks at the start refuse everything that a later epoch would refuse. An example is a list that cannot be
redistributed, in a job whose settings change the number of subtasks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.analysis.column_types import input_fields
from mixedmode.analysis.declared import declared_fields
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.checkpoint.types import ListState
from mixedmode.config import JobSpec, MapStep, SqlStep
from mixedmode.config.modes import resolve_mode
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.map import MAP_FUNCTION, MapDeclaration, MapOperator
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import MapStage
from mixedmode.state.lists import rescaling_problem

__all__ = ["MapInput", "check_declared_map", "check_items", "check_subtasks", "map_stage"]


@dataclass(frozen=True, slots=True)
class MapInput:
    """The input of a step with map: a streaming stand-in, and what the step reads.

    `maps_before`: the number of steps with map upstream. `parallelism`: the number of subtasks of the step while live.
    """

    frame: DataFrame
    reads: Reads
    maps_before: int
    parallelism: int


def map_stage(step: MapStep, given: MapInput, spec: JobSpec, where: Where) -> MapStage:
    """Return the stage of a step. `where` names a place in it. Raise InvalidJobError with every mistake."""
    found: list[MixedmodeError] = []
    with collecting(found):
        _check_sources([name for name in spec.sources if name in given.reads.upstream], spec, where)
    record_fields: tuple[pa.Field, ...] = ()
    with collecting(found):
        record_fields = input_fields(given.frame.schema, where("map"))
    declared = check_declared_map(step, where, found)
    if declared is not None and declared.keeps_list and declared.redistribution is None:
        with collecting(found):
            _check_fixed(spec, step, given.parallelism, where)
    raise_all(found)
    assert declared is not None, step
    operator = MapOperator(
        operator_id=operator_id(step, given.maps_before),
        function=MAP_FUNCTION.named(step.map, step.args, step.folder),
        record_fields=record_fields,
        output_fields=declared_fields(step.output, where("output")),
    )
    return MapStage(operator.operator_id, given.reads, operator, declared.keeps_list, declared.redistribution)


def check_declared_map(step: MapStep, where: Where, found: list[MixedmodeError]) -> MapDeclaration | None:
    """Return the declaration of a step's class. Append the mistakes that do not depend on the step's input."""
    with collecting(found):
        declared_fields(step.output, where("output"))
    operator = MapOperator("", MAP_FUNCTION.named(step.map, step.args, step.folder), (), ())
    declared: list[MapDeclaration] = []
    with collecting(found, where=where("map")):
        declared.append(operator.declaration())
    return declared[0] if declared else None


def check_items(plan: JobPlan, kept: Sequence[ListState]) -> None:
    """Raise InvalidJobError if a function cannot read the list that its earlier version has stored."""
    for stage, state in _kept(plan, kept):
        try:
            stage.operator.check_items(state.lists)
        except InvalidJobError as error:
            msg = f"{error}, step={stage.operator_id}"
            raise InvalidJobError(msg) from error


def check_subtasks(plan: JobPlan, kept: Sequence[ListState], parallelism: Callable[[str], int]) -> None:
    """Raise InvalidJobError if the stored lists do not allow the job's numbers of subtasks.

    parallelism: returns the number of subtasks of a step, by its operator id.
    """
    for stage, state in _kept(plan, kept):
        wanted = parallelism(stage.operator_id)
        problem = rescaling_problem(stage.operator_id, state.lists, stage.redistribution, wanted)
        if problem is not None:
            raise InvalidJobError(problem)


def _kept(plan: JobPlan, kept: Sequence[ListState]) -> Iterator[tuple[MapStage, ListState]]:
    """Yield the steps that have stored lists, with these lists."""
    states = {state.operator_id: state for state in kept}
    for stage in plan.maps:
        if stage.keeps_list and stage.operator_id in states:
            yield stage, states[stage.operator_id]


def _check_sources(sources_read: Sequence[str], spec: JobSpec, where: Where) -> None:
    """Raise InvalidJobError for several sources before a map step and a keyed step.

    The watermark needs the source of each record, and the rows of a map function do not have it.
    """
    has_keyed = any(not isinstance(step, SqlStep | MapStep) for step in spec.steps)
    if len(sources_read) > 1 and has_keyed:
        msg = (
            f"{where('map')}: a step with map takes one source where a keyed step follows, because its rows do not say "
            "which source they come from, and each source has a watermark of its own. Read one source, or leave the "
            f"map step to a job of its own. sources={', '.join(sources_read)}"
        )
        raise InvalidJobError(msg)


def _check_fixed(spec: JobSpec, step: MapStep, parallelism: int, where: Where) -> None:
    """Raise InvalidJobError if settings change the number of subtasks of a step that cannot redistribute its lists."""
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
