"""Makes the stages of steps with a function over two inputs, from spec and columns. Pure: no Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mixedmode.config import CoGroupStep, CoProcessStep, ProcessStep
from mixedmode.config.calls import quoted
from mixedmode.config.step_outputs import FunctionStep
from mixedmode.config.steps import operator_id
from mixedmode.config.windows import WINDOW_COLUMNS, SessionSpec
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.classes import ClassSource
from mixedmode.operators.co_group import CO_GROUP_FUNCTION, CoGroupBase, CoGroupOperator, SessionCoGroupOperator
from mixedmode.operators.join import LEFT, RIGHT, JoinLayout
from mixedmode.operators.process import CO_PROCESS_FUNCTION, AnyFunction, CoProcessOperator
from mixedmode.plan.fingerprint import step_fingerprint, window_fingerprint
from mixedmode.plan.join_operators import JoinedInput, JoinKey, no_event_time_of
from mixedmode.plan.joins import sides_of
from mixedmode.plan.keyed_operators import Where, time_windows
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.process_classes import process_reference
from mixedmode.plan.stages import KeyedStage
from mixedmode.plan.stored_types import unstorable

__all__ = ["co_group_stage", "co_process_stage", "function_reference", "grouped_fields", "untimed_inputs"]


def function_reference(step: FunctionStep) -> ClassSource[AnyFunction]:
    """Return the reference to the class of a step."""
    if isinstance(step, ProcessStep):
        return process_reference(step)
    return CO_PROCESS_FUNCTION.named(step.co_process.class_, step.co_process.args, step.co_process.folder)


def untimed_inputs(inputs: Sequence[JoinedInput], where: str) -> list[InvalidJobError]:
    """Return the mistake of each input whose rows have no event time, by which the function sees them in order."""
    return [no_event_time_of(one, where) for one in inputs if one.event_time is None]


def co_process_stage(
    step: CoProcessStep,
    upstream: Upstream,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    *,
    output_fields: tuple[pa.Field, ...],
    function_outputs: Mapping[str, tuple[pa.Field, ...]],
) -> KeyedStage:
    """Return the stage of a co-process function over inputs with event times.

    function_outputs: the columns of its side outputs, by tag.
    """
    own_id, spec = operator_id(step, upstream.keyed_before), step.co_process
    columns = (inputs[LEFT].fields, inputs[RIGHT].fields)
    every = (*columns[LEFT], *columns[RIGHT])
    key_fields = tuple(key.field for key in keys)
    operator = CoProcessOperator(
        operator_id=own_id,
        function=function_reference(step),
        key_schema=KeySchema(key_fields),
        record_fields=every,
        output_fields=output_fields,
        function_outputs=function_outputs,
        on_error=spec.on_error,
        output_event_time=spec.event_time,
        left_columns=len(columns[LEFT]),
    )
    times = (inputs[LEFT].event_time, inputs[RIGHT].event_time)
    return KeyedStage(
        operator_id=own_id,
        reads=upstream.reads,
        key_fields=key_fields,
        arguments=tuple(quoted(field.name) for field in every),
        argument_types=tuple(field.type for field in every),
        event_time=times[LEFT],
        is_changelog=False,
        operator=operator,
        identity=step_fingerprint("co-process", key_fields),
        delay_us=upstream.delay_us,
        sides=sides_of(spec, keys, inputs, times, columns),
    )


def grouped_fields(keys: Sequence[JoinKey], output: Sequence[pa.Field], where: str) -> tuple[pa.Field, ...]:
    """Return the columns of the rows of a co-group function. Raise InvalidJobError for a name that the step has.

    where: the place of `output`.
    """
    taken = {*WINDOW_COLUMNS, *(key.field.name.lower() for key in keys)}
    found = next((field.name for field in output if field.name.lower() in taken), None)
    if found is not None:
        msg = (
            f"{where}: the step adds the bounds of the window and the key to the rows of the function, so these "
            f"columns have this name already. Leave it out, or choose another. column={found}"
        )
        raise InvalidJobError(msg)
    return tuple(output)


def co_group_stage(
    step: CoGroupStep,
    upstream: Upstream,
    inputs: tuple[JoinedInput, JoinedInput],
    keys: Sequence[JoinKey],
    fields: tuple[pa.Field, ...],
    where: Where,
) -> KeyedStage:
    """Return the stage of a co-group function over inputs with event times.

    fields: the columns of its rows. Raise InvalidJobError for a column of an input that cannot wait.
    """
    own_id, spec = operator_id(step, upstream.keyed_before), step.co_group
    sides = (inputs[LEFT].fields, inputs[RIGHT].fields)
    for side, given in zip(sides, inputs, strict=True):
        for problem in unstorable(side, where("co-group"), alias=given.alias):
            raise problem
    times = (str(inputs[LEFT].event_time), str(inputs[RIGHT].event_time))
    key_fields = tuple(key.field for key in keys)
    common: dict[str, Any] = {
        "layout": JoinLayout(KeySchema(key_fields), sides, (), right_keys=tuple(key.right for key in keys)),
        "operator_id": own_id,
        "time_columns": (_position(inputs[LEFT], times[LEFT]), _position(inputs[RIGHT], times[RIGHT])),
        "function": CO_GROUP_FUNCTION.named(spec.class_, spec.args, spec.folder),
        "function_fields": fields,
        "on_error": spec.on_error,
    }
    operator: CoGroupBase
    if isinstance(spec.window.kind, SessionSpec):
        operator = SessionCoGroupOperator(**common, gap_us=1000 * spec.window.kind.gap_ms)
    else:
        operator = CoGroupOperator(**common, windows=time_windows(spec.window))
    every = (*sides[LEFT], *sides[RIGHT])
    columns = [[{"name": field.name, "type": str(field.type)} for field in side] for side in sides]
    return KeyedStage(
        operator_id=own_id,
        reads=upstream.reads,
        key_fields=key_fields,
        arguments=tuple(quoted(field.name) for field in every),
        argument_types=tuple(field.type for field in every),
        event_time=times[LEFT],
        is_changelog=False,
        operator=operator,
        identity={
            **step_fingerprint("co-group", key_fields),
            "window": window_fingerprint(spec.window),
            "columns": columns,
        },
        delay_us=upstream.delay_us,
        sides=sides_of(spec, keys, inputs, times, sides),
    )


def _position(given: JoinedInput, column: str) -> int:
    return [field.name.lower() for field in given.fields].index(column.lower())
