"""Makes the operator of a keyed aggregate step, from the step and the columns of its input. Pure: no Spark.

In a job, Spark supplies the types (mixedmode/analysis/keyed_steps.py); in a test, a schema does (mixedmode/testing).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.config import AggregateCall, KeyedAggregateStep, WindowSpec
from mixedmode.config.windows import CumulatingSpec, EventWindowSpec, GlobalSpec, SessionSpec, SlidingSpec
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import (
    AggregateFunction,
    AggregateOperator,
    Aggregator,
    Column,
    MultisetAggregateOperator,
    MultisetAggregator,
    aggregate_function,
    aggregator_for,
)
from mixedmode.operators.final import FinalOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.window import (
    CountWindowAggregateOperator,
    SessionAggregateOperator,
    TimeWindowAggregateOperator,
)
from mixedmode.plan.stages import ALL_ROWS
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling

Where = Callable[..., str]  #: returns the name of a place in the step, for a message


@dataclass(frozen=True, slots=True)
class StepColumns:
    """The columns that a step's operator reads: keys, () for un-keyed input, and {expression: type} of its arguments.

    The arguments of a batch are in the order of `arguments`. `has_event_time`: each row has a time, which is the clock
    if the step has windows of processing time. `window_bounds`: see Upstream.
    """

    keys: tuple[pa.Field, ...]
    arguments: Mapping[str, pa.DataType]
    has_event_time: bool
    is_changelog: bool
    window_bounds: tuple[str, ...] = ()

    @property
    def is_window_keyed(self) -> bool:
        """Return whether the key has the bounds of windows of the input, so that the results are of these windows."""
        return is_window_keyed(self.keys, self.window_bounds)


def aggregate_keys(step: KeyedAggregateStep, keys: tuple[pa.Field, ...]) -> tuple[pa.Field, ...]:
    """Return the key of an aggregate with these key columns: without any, and without a window, all rows are of one."""
    return keys if keys or step.window is not None else (ALL_ROWS,)


def is_window_keyed(keys: Sequence[pa.Field], window_bounds: Sequence[str]) -> bool:
    """Return whether a key has the columns `window_bounds`, if there are any (see Upstream)."""
    return bool(window_bounds) and {field.name.lower() for field in keys}.issuperset(window_bounds)


def takes_changes(step: KeyedAggregateStep, *, has_event_time: bool) -> bool:
    """Return whether an aggregate can read rows that change. A window of a number of rows cannot retract one."""
    return step.window is None or (has_event_time and not isinstance(step.window.kind, GlobalSpec))


def expressions_of(step: KeyedAggregateStep) -> tuple[str, ...]:
    """Return the SQL expressions in the calls of a step, each once."""
    return tuple(dict.fromkeys(text for call in step.aggregate.values() for text in call.expressions))


def arguments_of(step: KeyedAggregateStep, types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return {SQL of a column that the calls of a step read: its type}.  types: {expression in a call: its type}."""
    calls = step.aggregate.values()
    return {call.sql_of(text): types[text] for call in calls for text in call.expressions if text in types}


def aggregate_operator(step: KeyedAggregateStep, given: StepColumns, where: Where) -> KeyedOperator:
    """Return the operator of a step. Raise InvalidJobError for an unsuitable type, or if event time is missing."""
    functions = {name: output_function(name, step, given, where) for name in step.aggregate}
    return operator_of(step, given, functions, where)


def output_function(name: str, step: KeyedAggregateStep, given: StepColumns, where: Where) -> AggregateFunction:
    """Return the function of one output of a step. Raise InvalidJobError as aggregate_operator does."""
    columns = {text: Column(number, data_type) for number, (text, data_type) in enumerate(given.arguments.items())}
    return _function(name, step.aggregate[name], columns, has_event_time=given.has_event_time, where=where)


def operator_of(
    step: KeyedAggregateStep, given: StepColumns, functions: Mapping[str, AggregateFunction], where: Where
) -> KeyedOperator:
    """Return the operator of a step with `functions` by output. Raise InvalidJobError if event time is missing."""
    aggregator = aggregator_for(functions, arguments=len(given.arguments), counts_rows=given.is_changelog)
    types = tuple(given.arguments.values())
    schema = KeySchema(given.keys) if given.keys else None
    if step.window is not None:
        if not given.has_event_time:
            raise InvalidJobError(no_event_time(where("window"), is_first=True))
        if given.is_changelog and isinstance(step.window.kind, GlobalSpec):
            msg = (
                f"{where('window')}: the input has rows that are retracted, and a global window that is full cannot "
                "retract a row. Use a window that ends with time, or an aggregate without a window."
            )
            raise InvalidJobError(msg)
        if given.is_changelog and (not aggregator.is_invertible or isinstance(step.window.kind, SessionSpec)):
            aggregator = MultisetAggregator(aggregator.outputs, aggregator.registers, aggregator.arguments, types)
        return _windowed(step, step.window, aggregator, schema, is_changelog=given.is_changelog)
    assert schema is not None, "an aggregate over all rows has a key, too"
    if given.is_changelog and not aggregator.is_invertible:
        return MultisetAggregateOperator(aggregator, schema, types, emits_retractions=False)
    operator = AggregateOperator(aggregator, schema, is_changelog=given.is_changelog, emits_retractions=False)
    return FinalOperator(operator) if given.is_window_keyed and not given.is_changelog else operator


def time_windows(window: WindowSpec | EventWindowSpec) -> TimeWindows:
    """Return the windows of a spec whose bounds do not depend on the records."""
    kind = window.kind
    assert not isinstance(kind, GlobalSpec | SessionSpec), kind
    size_us, offset_us = 1000 * kind.size_ms, 1000 * kind.offset_ms
    if isinstance(kind, SlidingSpec):
        return Sliding(size_us, 1000 * kind.slide_ms, offset_us, kind.time_zone)
    if isinstance(kind, CumulatingSpec):
        return Cumulating(size_us, 1000 * kind.step_ms, offset_us, kind.time_zone)
    return Tumbling(size_us, offset_us, kind.time_zone)


def _windowed(
    step: KeyedAggregateStep,
    window: WindowSpec,
    aggregator: Aggregator,
    schema: KeySchema | None,
    *,
    is_changelog: bool,
) -> KeyedOperator:
    kind = window.kind
    if isinstance(kind, GlobalSpec):
        return CountWindowAggregateOperator(aggregator, schema, kind.count)
    lateness_us, early_ms = 1000 * step.allowed_lateness_ms, step.early_results_every_ms
    if isinstance(kind, SessionSpec):
        return SessionAggregateOperator(
            aggregator, schema, 1000 * kind.gap_ms, lateness_us, early_ms, emits_retractions=False
        )
    return TimeWindowAggregateOperator(
        aggregator,
        schema,
        time_windows(window),
        lateness_us,
        early_ms,
        emits_retractions=False,
        is_changelog=is_changelog,
        by_clock=window.is_by_clock,
    )


def _function(
    name: str, call: AggregateCall, columns: Mapping[str, Column], *, has_event_time: bool, where: Where
) -> AggregateFunction:
    argument = None if call.argument is None else columns[call.sql_of(call.argument)]
    return aggregate_function(
        _function_name(call),
        None if argument is None else argument.index,
        None if argument is None else argument.data_type,
        has_event_time=has_event_time,
        where=where("aggregate", name),
        by=None if call.by is None else columns[call.sql_of(call.by)],
        parameters=call.parameters,
        condition=None if call.condition is None else columns[call.condition],
    )


def _function_name(call: AggregateCall) -> str:
    if call.is_descending:
        return f"{call.function}_descending"
    return f"{call.function}_distinct" if call.is_distinct else call.function


def no_event_time(where: str, *, is_first: bool) -> str:
    """Return the message for a window, at `where`, over input without event time.

    is_first: it is in the first keyed step.
    """
    if not is_first:
        return (
            f"{where}: a window goes by event time, and this step's input has none. It comes from the step before: "
            "window_time after a window, the `event-time` of a process step or of a join with within, that of the left "
            "after another join. `select` and sql between the two must keep the column."
        )
    return (
        f"{where}: a window goes by event time, and this step's input has none. Set `event-time` on every source, and "
        "keep that column in the steps before this one. For windows of the time at which records are read, set `time: "
        "processing` in the window."
    )
