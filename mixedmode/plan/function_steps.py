"""Makes the stages of steps with a function over two inputs, from spec and columns. Pure: no Spark."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mixedmode.config import CoProcessStep, ProcessStep
from mixedmode.config.calls import quoted
from mixedmode.config.step_outputs import FunctionStep
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.join import LEFT, RIGHT
from mixedmode.operators.process import CoFunctionReference, CoProcessOperator, FunctionReference
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.plan.join_operators import JoinedInput, no_event_time_of
from mixedmode.plan.joins import JoinKey, sides_of
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage

__all__ = ["co_process_stage", "function_reference", "untimed_inputs"]


def function_reference(step: FunctionStep) -> FunctionReference:
    """Return the reference to the class of a step."""
    if isinstance(step, ProcessStep):
        return FunctionReference.parse(step.process, step.args, step.folder)
    return CoFunctionReference.parse(step.co_process.class_, step.co_process.args, step.co_process.folder)


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
        sides=sides_of(keys, inputs, times, columns),
    )
