"""Makes the stage of an async-map step from its spec and the columns of its input. Pure: no Spark."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from mixedmode.config import AsyncMapStep, format_duration_ms
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.async_map import ASYNC_MAP_FUNCTION, AsyncMapOperator, CallSettings, problem_of
from mixedmode.operators.row_columns import is_storable
from mixedmode.plan.fingerprint import async_map_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream
from mixedmode.plan.stages import KeyedStage

__all__ = ["answer_problems", "async_map_lines", "async_map_stage", "async_map_state", "check_class"]

_ON_ERROR = {
    "fail": "the job stops, and nothing of the epoch is committed",
    "skip": "the rows of the request are counted and left out",
    "dead-letter": "the rows of the request go to an output of their own",
}


def async_map_stage(
    step: AsyncMapStep,
    upstream: Upstream,
    *,
    keys: tuple[pa.Field, ...],
    row: Mapping[str, pa.Field],
    answer: tuple[pa.Field, ...],
) -> KeyedStage:
    """Return the stage of a step.  row: {expression: column} of the columns other than the key; answer: its columns."""
    own_id = operator_id(step, upstream.keyed_before)
    operator = AsyncMapOperator(
        operator_id=own_id,
        function=ASYNC_MAP_FUNCTION.named(step.async_map, step.args, step.folder),
        key_schema=KeySchema(keys),
        row_fields=tuple(row.values()),
        answer_fields=answer,
        calls=CallSettings(
            batch_size=step.batch_size,
            capacity=step.capacity,
            timeout_ms=step.timeout_ms,
            retries=step.retries,
            backoff_ms=step.backoff_ms,
        ),
        on_error=step.on_error,
        remember_ms=step.remember_ms,
        has_event_time=upstream.event_time is not None,
    )
    return KeyedStage(
        operator_id=own_id,
        reads=upstream.reads,
        key_fields=keys,
        arguments=tuple(row),
        argument_types=tuple(field.type for field in row.values()),
        event_time=upstream.event_time,
        is_changelog=False,
        operator=operator,
        identity=async_map_fingerprint(keys, None if step.remember_ms is None else answer),
        delay_us=upstream.delay_us,
    )


def check_class(step: AsyncMapStep, where: Where) -> None:
    """Raise InvalidJobError if the class of a step cannot be loaded, instantiated or called."""
    reference = ASYNC_MAP_FUNCTION.named(step.async_map, step.args, step.folder)
    try:
        reference.create()
        problem = problem_of(reference.load(), reference.label)
    except InvalidJobError as error:
        problem = error
    if problem is not None:
        msg = f"{where('async-map')}: {problem}"
        raise InvalidJobError(msg) from problem.__cause__


def answer_problems(
    step: AsyncMapStep, answer: Sequence[pa.Field], columns: Sequence[str], where: Where
) -> Iterator[InvalidJobError]:
    """Yield the mistakes in the columns of an answer.  columns: the names of those of the input."""
    known = {name.lower() for name in columns}
    for field in answer:
        if field.name.lower() in known:
            msg = (
                f"{where('output')}: the input has a column of this name, and rows keep their columns. Choose another. "
                f"column={field.name}"
            )
            yield InvalidJobError(msg)
        if step.remember_ms is not None and not is_storable(field.type):
            msg = (
                f"{where('output')}: a remembered answer has no column of this type. Let the class return the value as "
                f"text, or remove `remember`. column={field.name}, type={field.type}"
            )
            yield InvalidJobError(msg)


def async_map_lines(operator: AsyncMapOperator) -> Iterator[str]:
    """Yield the lines of `explain` on the calls of a step."""
    calls = operator.calls
    timeout, backoff = format_duration_ms(calls.timeout_ms), format_duration_ms(calls.backoff_ms)
    size = f"{calls.batch_size} request{'s' if calls.batch_size > 1 else ''}"
    yield f"  function    {operator.function.label}, asked once in an epoch for each key"
    yield f"  calls       of {size}, at most {calls.capacity} at a time in each subtask, {timeout} each"
    again = f"{calls.retries} times, first after {backoff} at most" if calls.retries else "never"
    yield f"  sent again  {again}; all of them when an epoch is repeated, with the same keys"
    yield f"  on error    {operator.on_error}: {_ON_ERROR[operator.on_error]}"


def async_map_state(operator: AsyncMapOperator) -> str:
    """Return a phrase on the state of a step."""
    if operator.remember_ms is None:
        return "none: a request is sent in each epoch that has rows of it"
    return f"the answer of each key, for {format_duration_ms(operator.remember_ms)}; it is not asked for again"
