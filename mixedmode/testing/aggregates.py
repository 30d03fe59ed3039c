"""Harnesses for a keyed aggregate, with or without windows, and for any keyed operator."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from mixedmode.config import AggregateCall, KeyedAggregateStep
from mixedmode.job import Job, Source
from mixedmode.job.keyed import WindowArguments
from mixedmode.operators.interface import WEIGHT_COLUMN, KeyedOperator
from mixedmode.plan.fingerprint import aggregate_fingerprint, step_fingerprint
from mixedmode.plan.keyed_operators import StepColumns, aggregate_operator, expressions_of
from mixedmode.testing.functions import by_name
from mixedmode.testing.harness import Harness
from mixedmode.testing.schemas import SchemaLike, schema_of
from mixedmode.testing.settings import HarnessArguments
from mixedmode.testing.step import Step, argument_type, check_event_time, columns_of, key_fields, places

_WHERE = "AggregateHarness"


class AggregateHarness(Harness):
    """A harness for `job.key_by(...).window(...).aggregate(...)`, with the same arguments.

    aggregate: {output column: call}, such as `{"n": "count(*)", "total": "sum(v)"}`. Arguments and conditions of calls
        must be columns, since SQL expressions need Spark.
    schema: the columns of the records, as Spark DDL, {column: type}, or a pyarrow.Schema.
    key_by: one column or several; none only with a window.
    window: the arguments of Job.window, such as `{"tumbling": "1h", "allowed_lateness": "5m"}`.
    event_time: a timestamp column.
    See HarnessArguments for the other arguments.

    Raises InvalidJobError for whatever a job would be refused for at its start.
    """

    def __init__(
        self,
        *,
        aggregate: Mapping[str, str | AggregateCall],
        schema: SchemaLike,
        key_by: str | Sequence[str] = (),
        window: WindowArguments | None = None,
        event_time: str | None = None,
        **settings: Unpack[HarnessArguments],
    ) -> None:
        records, keys = schema_of(schema, where=f"{_WHERE}: schema"), columns_of(key_by, where=f"{_WHERE}: key_by")
        spec = _step(keys, window, aggregate)
        if event_time is not None:
            check_event_time(records, event_time, where=f"{_WHERE}: event_time")
        where = f"{_WHERE}: aggregate"
        by_clock = spec.window is not None and spec.window.is_by_clock
        given = StepColumns(
            keys=key_fields(records, keys, where=f"{_WHERE}: key_by") if keys else (),
            arguments={text: argument_type(records, text, where=where) for text in expressions_of(spec)},
            has_event_time=by_clock or event_time is not None,
            is_changelog=WEIGHT_COLUMN in records.names,
        )
        operator = aggregate_operator(spec, given, places(_WHERE))
        step = Step.checked(
            operator,
            records,
            key_by=keys,
            arguments=tuple(given.arguments),
            event_time=event_time,
            identity=aggregate_fingerprint(spec, given.keys, given.arguments, operator),
            where=_WHERE,
        )
        super().__init__(step, settings)


class OperatorHarness(Harness):
    """A harness for any mixedmode.operators.interface.KeyedOperator, for authors of operators.

    key_by and arguments: columns of `schema`, in the order in which the operator reads them from a batch. A column
    `_weight` makes the input a changelog.
    """

    def __init__(
        self,
        operator: KeyedOperator,
        *,
        key_by: str | Sequence[str],
        schema: SchemaLike,
        arguments: Sequence[str] = (),
        event_time: str | None = None,
        **settings: Unpack[HarnessArguments],
    ) -> None:
        step = Step.checked(
            operator,
            schema_of(schema, where="OperatorHarness: schema"),
            key_by=columns_of(key_by, where="OperatorHarness: key_by"),
            arguments=arguments,
            event_time=event_time,
            identity=step_fingerprint(type(operator).__name__),
            where="OperatorHarness",
        )
        super().__init__(step, settings)


def _step(
    keys: tuple[str, ...], window: WindowArguments | None, aggregate: Mapping[str, str | AggregateCall]
) -> KeyedAggregateStep:
    """Return the step as a job would have it, after the job's own checks."""
    by_name(window, f"{_WHERE}: window")
    job = Job("harness", sources={"rows": Source.parquet("rows")}, mode="batch")  # reads nothing: it is never run
    if window is None:
        job = job.key_by(*keys).aggregate(aggregate)
    elif keys:
        job = job.key_by(*keys).window(**window).aggregate(aggregate)
    else:
        job = job.window(**window).aggregate(aggregate)
    step = job.steps[-1]
    assert isinstance(step, KeyedAggregateStep), step
    return step
