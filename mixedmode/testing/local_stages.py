"""The stages of single steps without Spark, made of the columns of their inputs.

Expressions are columns here, so a column is all that a type depends on.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mixedmode.analysis.keyed_steps import checked_key, column_taken, names_taken, rows_change
from mixedmode.analysis.problems import raise_all
from mixedmode.config import AsyncMapStep, DeduplicateStep, KeyedAggregateStep, OneInputStep, OverStep, ProcessStep
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.calls import column_in, quoted
from mixedmode.config.keyed import key_advice
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.step_outputs import FunctionStep, function_section
from mixedmode.config.steps import TopStep
from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import state_schema_of
from mixedmode.plan.apply_changes_operators import row_columns
from mixedmode.plan.async_maps import answer_problems, async_map_stage, check_class
from mixedmode.plan.function_steps import function_reference
from mixedmode.plan.join_operators import JoinKey
from mixedmode.plan.keyed_operators import (
    StepColumns,
    Where,
    aggregate_keys,
    aggregate_operator,
    expressions_of,
    no_event_time,
    takes_changes,
)
from mixedmode.plan.keyed_stages import (
    Upstream,
    aggregate_stage,
    apply_changes_stage,
    over_stage,
    process_stage,
    ranked_stage,
)
from mixedmode.plan.over_operators import over_column
from mixedmode.plan.ranked_operators import RankedColumns, orders_of
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stages import ALL_ROWS, KeyedStage
from mixedmode.testing.functions import declared_output
from mixedmode.testing.step import check_event_time

__all__ = ["Columns", "declared_rows", "join_key", "stage_of"]


class Columns:
    """The columns of a step's input, whose names may be spelled in any case."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._by_name = {field.name.lower(): field for field in self.fields}

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return {name in lower case: type}."""
        return {name: field.type for name, field in self._by_name.items()}

    def field(self, name: str, where: str, advice: str = "") -> pa.Field:
        """Return a column. Raise InvalidJobError, beginning with `where`, if there is no such column."""
        if name.lower() not in self._by_name:
            known = [field.name for field in self.fields]
            hint = did_you_mean(name, known) + advice
            msg = f"{where}: there is no column {name}.{hint} Columns here: {', '.join(known)}."
            raise InvalidJobError(msg)
        return self._by_name[name.lower()]

    def type_of(self, text: str, where: str) -> pa.DataType:
        """Return the type of an expression that is a column."""
        return self.field(column_in(text) or text, where).type

    def keys(self, names: Sequence[str], where: str) -> tuple[pa.Field, ...]:
        """Return the key columns, as they are spelled in the step. Raise InvalidJobError for an unsuitable one."""
        found = [self.field(name, where, key_advice(name)) for name in names]
        return tuple(checked_key(pa.field(name, one.type), where) for name, one in zip(names, found, strict=True))

    def quoted(self, *, without: Sequence[str] = ()) -> dict[str, pa.Field]:
        """Return {expression: column} of all columns but those of these names."""
        left_out = {name.lower() for name in without}
        return {quoted(field.name): field for field in self.fields if field.name.lower() not in left_out}


def stage_of(
    step: OneInputStep, columns: Columns, upstream: Upstream, where: Where, row_key: RowKey = None
) -> KeyedStage:
    """Return the stage of a step over these columns. Raise InvalidJobError for wrong ones.

    row_key: those of them that no two rows share (see RowKey).
    """
    keys = columns.keys(step.key_columns, where("key-by")) if step.key_columns else ()
    if isinstance(step, KeyedAggregateStep):
        return _aggregate(step, columns, upstream, aggregate_keys(step, keys), where)
    if isinstance(step, ProcessStep):
        return _process(step, columns, upstream, keys, where)
    if isinstance(step, AsyncMapStep):
        return _async_map(step, columns, upstream, keys, where)
    if isinstance(step, OverStep):
        return _over(step, columns, upstream, keys, where)
    if isinstance(step, ApplyChangesStep):
        return _apply_changes(step, columns, upstream, keys, where)
    if upstream.is_changelog and isinstance(step, DeduplicateStep) and step.is_append_only:
        raise rows_change(where("deduplicate"), upstream.reads)
    place = where("top", "order-by") if isinstance(step, TopStep) else where("deduplicate", "tie-break")
    order = []
    for by in orders_of(step, upstream.event_time):
        field = columns.field(column_in(by.expression) or by.expression, place)
        order.append((quoted(field.name), field.type))
    row = columns.quoted(without=step.key_columns)
    raise_all([error for field in row.values() for error in column_taken(step, field.name, where)])
    passed = row_key if isinstance(step, TopStep) else None
    return ranked_stage(step, upstream, RankedColumns(keys, row, order, passed), where)


def _over(step: OverStep, columns: Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where) -> KeyedStage:
    if upstream.is_changelog:
        raise rows_change(where("over"), upstream.reads)
    row = columns.quoted(without=step.key_columns)
    raise_all([error for field in row.values() for error in column_taken(step, field.name, where)])
    ties = [columns.field(name, where("over", "tie-break")) for name in step.over.tie_break]
    read = RankedColumns(keys or (ALL_ROWS,), row, [(quoted(field.name), field.type) for field in ties])
    computed = [
        over_column(name, call, read, where("over", "columns", name)) for name, call in step.over.columns.items()
    ]
    return over_stage(step, upstream, read, computed, where)


def _apply_changes(
    step: ApplyChangesStep, columns: Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    if upstream.is_changelog:
        raise rows_change(where("apply-changes"), upstream.reads)
    names = [field.name for field in columns.fields]
    kept = set(row_columns(step, names, where))
    row = columns.quoted(without=[name for name in names if name not in kept])
    raise_all([error for field in row.values() for error in column_taken(step, field.name, where)])
    order = []
    for key, text in step.apply_changes.expressions:
        field = columns.field(column_in(text) or text, where("apply-changes", key))
        order.append((quoted(field.name), field.type))
    return apply_changes_stage(step, upstream, RankedColumns(keys, row, order), where)


def join_key(left: pa.Field, right: pa.Field, where: str) -> JoinKey:
    """Return a key column of a join. Raise InvalidJobError, beginning with `where`, for columns of different types."""
    if left.type != right.type:
        msg = (
            f"{where}: the columns have different types, and only Spark knows the type in which they are compared. "
            f"Declare one type for both, or run the job on Spark. left={left.name} {left.type}, "
            f"right={right.name} {right.type}"
        )
        raise InvalidJobError(msg)
    return JoinKey(checked_key(left, where), right.name, (quoted(left.name), quoted(right.name)))


def _aggregate(
    step: KeyedAggregateStep, columns: Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    by_clock = step.window is not None and step.window.is_by_clock
    has_time = upstream.event_time is not None
    if upstream.is_changelog and not takes_changes(step, has_event_time=has_time and not by_clock):
        raise rows_change(where("window"), upstream.reads)
    if step.window is not None and not has_time and not by_clock:
        raise InvalidJobError(no_event_time(where("window"), is_first=upstream.keyed_before == 0))
    places: Mapping[str, str] = {text: name for name, call in step.aggregate.items() for text in call.expressions}
    arguments = {text: columns.type_of(text, where("aggregate", places[text])) for text in expressions_of(step)}
    read = StepColumns(keys, arguments, has_time or by_clock, upstream.is_changelog, upstream.window_bounds)
    if read.is_window_keyed and step.window is None:
        raise_all(names_taken(step, where))
    late_fields = () if step.late is None else columns.fields
    return aggregate_stage(step, upstream, read, aggregate_operator(step, read, where), late_fields=late_fields)


def _process(
    step: ProcessStep, columns: Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    if upstream.is_changelog:
        raise rows_change(where("process"), upstream.reads)
    output, outputs = declared_rows(step, where)
    return process_stage(
        step,
        upstream,
        keys=keys,
        arguments=columns.quoted(),
        output_fields=output,
        function_outputs=outputs,
        where=where,
    )


def declared_rows(step: FunctionStep, where: Where) -> tuple[tuple[pa.Field, ...], dict[str, tuple[pa.Field, ...]]]:
    """Return the columns of the rows of a function, and those of its side outputs. Raise InvalidJobError."""
    path, own = function_section(step)
    output = declared_output(own.output, where(*path, "output"))
    if own.event_time is not None:
        place = where(*path, "event-time")
        check_event_time(pa.schema(output), Columns(output).field(own.event_time, place).name, where=place)
    try:
        state_schema_of(function_reference(step))
    except InvalidJobError as error:
        msg = f"{where(*path, 'process' if isinstance(step, ProcessStep) else 'class')}: {error}"
        raise InvalidJobError(msg) from error
    return output, {
        tag: declared_output(side.schema_ddl, where(*path, "outputs", tag, "schema"))
        for tag, side in own.outputs.items()
    }


def _async_map(
    step: AsyncMapStep, columns: Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    if upstream.is_changelog:
        raise rows_change(where("async-map"), upstream.reads)
    answer = declared_output(step.output, where("output"))
    row = columns.quoted(without=step.key_columns)
    raise_all(list(answer_problems(step, answer, [field.name for field in columns.fields], where)))
    check_class(step, where)
    return async_map_stage(step, upstream, keys=keys, row=row, answer=answer)
