"""Adds the broadcast inputs of a function to the stage of its step. Pure: no Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from mixedmode.config.broadcasts import BroadcastSpec
from mixedmode.config.calls import quoted
from mixedmode.config.step_outputs import FunctionStep, broadcasts_of, function_section
from mixedmode.config.steps import ProcessStep
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.keys import KeySchema
from mixedmode.operators.process import BroadcastInput, Broadcasts, CoProcessOperator, ProcessOperator
from mixedmode.plan.join_operators import JoinedInput, no_event_time_of
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.reads import Reads
from mixedmode.plan.side_outputs import LATE
from mixedmode.plan.stages import KeyedStage, Side
from mixedmode.plan.stored_types import unordered, unstorable

__all__ = ["broadcast_problems", "with_broadcasts"]


def broadcast_problems(
    step: FunctionStep, mains: Sequence[JoinedInput], given: Sequence[JoinedInput], where: Where
) -> list[MixedmodeError]:
    """Return the mistakes in the broadcast inputs of a step, and in the inputs with records beside them.

    mains: the inputs with records. given: the broadcast inputs, in the order of the step.
    """
    path, _ = function_section(step)
    found: list[MixedmodeError] = []
    for main in mains:
        if main.event_time is None and isinstance(step, ProcessStep):
            found.append(no_event_time_of(main, where(*path, "broadcast")))
        found += unstorable(main.fields, where(*path, "broadcast"), alias=main.alias)
    for one, (name, spec) in zip(given, broadcasts_of(step).items(), strict=True):
        place = where(*path, "broadcast", name)
        if one.event_time is None:
            found.append(no_event_time_of(one, place))
        found += unstorable(one.fields, place, alias=one.alias)
        try:
            made = _input(name, spec, one, place)
        except InvalidJobError as error:
            found.append(error)
            continue
        if made.deleted is not None and not pa.types.is_boolean(made.fields[made.deleted].type):
            msg = (
                f"{place}.deleted: it must be a boolean column. Compute one in a sql step before. "
                f"column={made.fields[made.deleted].name}, type={made.fields[made.deleted].type}"
            )
            found.append(InvalidJobError(msg))
    return found


def with_broadcasts(
    stage: KeyedStage,
    step: FunctionStep,
    mains: Sequence[JoinedInput],
    given: Sequence[JoinedInput],
    reads: Reads,
    *,
    delay_us: int,
    where: Where,
) -> KeyedStage:
    """Return the stage of a step, which also reads broadcast inputs without problems (`broadcast_problems`).

    mains, given: as there. reads, delay_us: those of all inputs together.
    """
    operator = stage.operator
    assert isinstance(operator, ProcessOperator), stage.operator_id
    path, _ = function_section(step)
    columns = [
        (one, _input(name, spec, one, where(*path, "broadcast", name)))
        for one, (name, spec) in zip(given, broadcasts_of(step).items(), strict=True)
    ]
    left = operator.left_columns if isinstance(operator, CoProcessOperator) else len(operator.record_fields)
    sides = (operator.record_fields[:left], operator.record_fields[left:])
    every = tuple(field for one in given for field in one.fields)
    return replace(
        stage,
        reads=reads,
        delay_us=delay_us,
        arguments=(*stage.arguments, *(quoted(field.name) for field in every)),
        argument_types=(*stage.argument_types, *(field.type for field in every)),
        operator=replace(operator, broadcasts=Broadcasts(tuple(made for _, made in columns), len(mains), sides)),
        identity={
            **stage.identity,
            "broadcast": [_identity(made) for _, made in columns],
            "columns": [[{"name": field.name, "type": str(field.type)} for field in side] for side in sides],
        },
        sides=(*_main_sides(stage, step, mains), *_other_sides(stage, given)),
    )


def _main_sides(stage: KeyedStage, step: FunctionStep, mains: Sequence[JoinedInput]) -> list[Side]:
    """Return the sides of the inputs with records: those of the stage, or those of a step that reads them as one."""
    if not isinstance(step, ProcessStep):
        return list(stage.sides)
    keys = tuple(quoted(field.name) for field in stage.key_fields)
    every = range(len(stage.arguments))
    late = mains[0].fields if step.late is not None else ()
    return [Side(keys, main.event_time, every, main.roots, late_tag=LATE, late_fields=late) for main in mains]


def _other_sides(stage: KeyedStage, given: Sequence[JoinedInput]) -> list[Side]:
    found, start = list[Side](), len(stage.arguments)
    for one in given:
        found.append(Side((), one.event_time, range(start, start + len(one.fields)), one.roots))
        start += len(one.fields)
    return found


def _input(name: str, spec: BroadcastSpec, given: JoinedInput, place: str) -> BroadcastInput:
    """Return a broadcast input. Raise InvalidJobError for a column that is missing, no key or without an order."""
    names = [field.name for field in given.fields]

    def index(column: str, key: str) -> int:
        return names.index(given.field(column, f"{place}.{key}").name)

    made = BroadcastInput(
        name=name,
        fields=given.fields,
        key=tuple(index(column, "key") for column in spec.key),
        tie_break=tuple(index(column, "tie-break") for column in spec.tie_break),
        deleted=None if spec.deleted is None else index(spec.deleted, "deleted"),
        tolerance_us=None if spec.tolerance_ms is None else 1000 * spec.tolerance_ms,
        history_us=1000 * spec.history_ms,
    )
    try:
        KeySchema(tuple(given.fields[one] for one in made.key))
    except InvalidJobError as error:
        msg = f"{place}.key: {error}"
        raise InvalidJobError(msg) from error
    ties = [(given.fields[one].name, given.fields[one].type) for one in made.tie_break]
    for problem in unordered(ties, f"{place}.tie-break"):
        raise problem
    return made


def _identity(given: BroadcastInput) -> Mapping[str, object]:
    """Return what must stay the same as long as versions are stored."""
    names = [field.name for field in given.fields]
    return {
        "name": given.name,
        "columns": [{"name": field.name, "type": str(field.type)} for field in given.fields],
        "key": [names[index] for index in given.key],
    }
