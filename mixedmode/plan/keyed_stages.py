"""Makes the stage of a keyed step from its spec and the columns of its input. Pure: no Spark.

In a job, Spark supplies the types of columns and expressions (analysis/keyed_steps.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from mixedmode.config import DeduplicateStep, KeyedAggregateStep, KeyedStep, OverStep, ProcessStep, TopStep
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.calls import quoted
from mixedmode.config.graph import MAIN_OUTPUT
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import CheckedUpsertOperator, UpsertOperator
from mixedmode.operators.final import FinalOperator
from mixedmode.operators.interface import Changelog, KeyedOperator
from mixedmode.operators.over import OverColumn
from mixedmode.operators.process import ProcessOperator
from mixedmode.operators.top import TopOperator
from mixedmode.operators.window import WINDOW_BOUNDS
from mixedmode.plan.apply_changes_operators import (
    apply_changes_identity,
    apply_changes_operator,
    check_condition,
)
from mixedmode.plan.fingerprint import Fingerprint, aggregate_fingerprint, step_fingerprint
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import StepColumns, Where, is_window_keyed
from mixedmode.plan.over_operators import over_identity, over_operator
from mixedmode.plan.process_classes import process_reference
from mixedmode.plan.ranked_operators import (
    RankedColumns,
    check_types,
    deduplicate_operator,
    orders_of,
    ranked_identity,
    top_operator,
)
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import ALL_ROWS, EmittedRows, KeyedStage

__all__ = [
    "Upstream",
    "aggregate_stage",
    "apply_changes_stage",
    "over_stage",
    "process_stage",
    "ranked_stage",
    "upsert_stage",
    "with_changelogs",
]


@dataclass(frozen=True, slots=True)
class Upstream:
    """The position of a keyed step in its job: what it reads, and what the rows of its input are.

    `keyed_before`: the number of earlier keyed steps. `event_time`: the event-time column of the input, if any.
    `changelog`: what the upstream keyed step emits. `delay_us`: see KeyedStage. `window_bounds`: the columns of the
    input that hold the bounds of windows, if it has them.
    """

    reads: Reads
    keyed_before: int
    event_time: str | None
    changelog: Changelog = Changelog.APPEND
    delay_us: int = 0
    window_bounds: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        reads: Reads,
        emitted: Sequence[EmittedRows],
        keyed_before: int,
        *,
        event_time: str | None,
        keeps_bounds: bool = True,
    ) -> Self:
        """Return the position of a step that reads `reads`.

        emitted: what the stages among the roots emit. event_time: the event-time column of the input, if every row has
        one. keeps_bounds: the rows are those of one stage, and sql has left the bounds of windows as they were.
        """
        bounds = tuple(field.name for field in WINDOW_BOUNDS)
        has_bounds = len(emitted) == 1 and not reads.sources and emitted[0].has_windows and keeps_bounds
        return cls(
            reads,
            keyed_before,
            event_time,
            Changelog.RETRACT if reads.changelogs else Changelog.APPEND,
            max((one.delay_us for one in emitted), default=0),
            bounds if has_bounds else (),
        )

    def of_step(self, step: KeyedStep) -> Self:
        """Return the position for a step. Only windows use the event time of rows that change."""
        has_window = isinstance(step, KeyedAggregateStep) and step.window is not None
        return self if has_window or not self.is_changelog else replace(self, event_time=None)

    @property
    def is_changelog(self) -> bool:
        """Return whether the input may retract rows."""
        return self.changelog is Changelog.RETRACT


def aggregate_stage(
    step: KeyedAggregateStep,
    upstream: Upstream,
    columns: StepColumns,
    operator: KeyedOperator,
    *,
    late_fields: tuple[pa.Field, ...] = (),
) -> KeyedStage:
    """Return the stage of a keyed aggregate.  columns: what its operator reads; late_fields: see KeyedStage."""
    by_clock = operator.traits.by_clock
    return KeyedStage(
        operator_id=operator_id(step, upstream.keyed_before),
        reads=upstream.reads,
        key_fields=columns.keys,
        arguments=tuple(columns.arguments),
        argument_types=tuple(columns.arguments.values()),
        event_time=None if by_clock else upstream.event_time,
        is_changelog=upstream.is_changelog,
        operator=operator,
        identity=aggregate_fingerprint(step, columns.keys, columns.arguments, operator),
        late_fields=late_fields,
        delay_us=0 if by_clock else upstream.delay_us,
        is_window_keyed=columns.is_window_keyed and step.window is None,
    )


def process_stage(
    step: ProcessStep,
    upstream: Upstream,
    *,
    keys: tuple[pa.Field, ...],
    arguments: Mapping[str, pa.Field],
    output_fields: tuple[pa.Field, ...],
    function_outputs: Mapping[str, tuple[pa.Field, ...]],
    where: Where,
    time_zone: str = "UTC",
) -> KeyedStage:
    """Return the stage of a process function. Raise InvalidJobError if it cannot run on these records.

    arguments: {expression: column} of its records. function_outputs: the columns of its side outputs, by tag.
    time_zone: of Spark's session.
    """
    own_id = operator_id(step, upstream.keyed_before)
    records = tuple(arguments.values())
    function = process_reference(step, keys=keys, records=records, output=output_fields, time_zone=time_zone)
    unused = [key for key, given in (("outputs", step.outputs), ("broadcast", step.broadcast)) if given]
    try:
        function.check_step(has_event_time=upstream.event_time is not None, unused=unused)
    except InvalidJobError as error:
        msg = f"{where('process')}: {error}"
        raise InvalidJobError(msg) from error
    operator = ProcessOperator(
        operator_id=own_id,
        function=function,
        key_schema=KeySchema(keys),
        record_fields=records,
        output_fields=output_fields,
        function_outputs=function_outputs,
        on_error=step.on_error,
        has_event_time=upstream.event_time is not None,
        output_event_time=step.event_time,
    )
    return KeyedStage(
        operator_id=own_id,
        reads=upstream.reads,
        key_fields=keys,
        arguments=tuple(arguments),
        argument_types=tuple(field.type for field in arguments.values()),
        event_time=upstream.event_time,
        is_changelog=False,
        operator=operator,
        identity=step_fingerprint("process", keys),
        delay_us=upstream.delay_us,
    )


def ranked_stage(
    step: TopStep | DeduplicateStep, upstream: Upstream, columns: RankedColumns, where: Where
) -> KeyedStage:
    """Return the stage of a step with `top` or `deduplicate`. Raise InvalidJobError for unsuitable columns."""
    check_types(columns, where("top" if isinstance(step, TopStep) else "deduplicate"))
    if not columns.keys:  # as a top may be
        columns = replace(columns, keys=(ALL_ROWS,))
    event_time, is_changelog = upstream.event_time, upstream.is_changelog
    operator: KeyedOperator
    if isinstance(step, TopStep):
        operator = top_operator(step, columns, is_changelog=is_changelog)
    else:
        operator = deduplicate_operator(step, columns, where, event_time=event_time, is_changelog=is_changelog)
    has_window_key = isinstance(operator, TopOperator) and is_window_keyed(columns.keys, upstream.window_bounds)
    if has_window_key and not is_changelog:
        operator = FinalOperator(operator)
    orders = orders_of(step, event_time)
    return KeyedStage(
        operator_id=operator_id(step, upstream.keyed_before),
        reads=upstream.reads,
        key_fields=columns.keys,
        arguments=tuple(columns.arguments),
        argument_types=tuple(columns.arguments.values()),
        event_time=event_time,
        is_changelog=is_changelog,
        operator=operator,
        identity=ranked_identity(step, columns, orders, is_changelog=is_changelog),
        delay_us=upstream.delay_us,
        is_window_keyed=has_window_key,
        passed_key=columns.row_key,
    )


def over_stage(
    step: OverStep, upstream: Upstream, columns: RankedColumns, computed: Sequence[OverColumn], where: Where
) -> KeyedStage:
    """Return the stage of an `over` step. Raise InvalidJobError for unsuitable columns.

    columns: what the step reads; computed: what it adds.
    """
    check_types(columns, where("over"))
    operator = over_operator(columns, computed, where, event_time=upstream.event_time)
    return _of_appended_rows(step, upstream, columns, operator, over_identity(step, columns))


def apply_changes_stage(step: ApplyChangesStep, upstream: Upstream, columns: RankedColumns, where: Where) -> KeyedStage:
    """Return the stage of an `apply-changes` step. Raise InvalidJobError for unsuitable columns.

    columns: what the step reads; their order has the sequence, and the condition if records may delete.
    """
    check_types(columns, where("apply-changes"))
    check_condition(step, columns, where)
    operator = apply_changes_operator(step, columns, where)
    return _of_appended_rows(step, upstream, columns, operator, apply_changes_identity(columns, operator))


def _of_appended_rows(
    step: OverStep | ApplyChangesStep,
    upstream: Upstream,
    columns: RankedColumns,
    operator: KeyedOperator,
    identity: Fingerprint,
) -> KeyedStage:
    """Return the stage of a step that reads rows which never change."""
    return KeyedStage(
        operator_id=operator_id(step, upstream.keyed_before),
        reads=upstream.reads,
        key_fields=columns.keys,
        arguments=tuple(columns.arguments),
        argument_types=tuple(columns.arguments.values()),
        event_time=upstream.event_time,
        is_changelog=False,
        operator=operator,
        identity=identity,
        delay_us=upstream.delay_us,
    )


def upsert_stage(
    output: str, reads: Reads, fields: Sequence[pa.Field], key: Sequence[str], *, is_checked: bool
) -> KeyedStage:
    """Return the stage that makes upserts of the rows of an output.

    fields: the columns of the rows. key: the names of those that are the key, () if there is one row. is_checked: it is
    not known that each key has one row, so the stage finds a second one.
    """
    by_name = {field.name: field for field in fields}
    keys = KeySchema(tuple(by_name[name] for name in key) or (ALL_ROWS,))
    rest = tuple(field for field in fields if field.name not in key)
    operator_type = CheckedUpsertOperator if is_checked else UpsertOperator
    return KeyedStage(
        operator_id=f"upsert-{output or MAIN_OUTPUT}",  # with a hyphen, so it is no name of a step
        reads=reads,
        key_fields=keys.fields,
        arguments=tuple(quoted(field.name) for field in rest),
        argument_types=tuple(field.type for field in rest),
        event_time=None,
        is_changelog=bool(reads.changelogs),
        operator=operator_type(keys, rest),
        identity=step_fingerprint("checked-upsert", keys.fields) if is_checked else step_fingerprint("upsert"),
    )


def with_changelogs(plan: JobPlan) -> JobPlan:
    """Return the same plan. Stages whose rows other stages read also retract the rows that they replace."""
    stages = [stage.with_retractions() if plan.is_inner(stage.operator_id) else stage for stage in plan.stages]
    return replace(plan, stages=tuple(stages))
