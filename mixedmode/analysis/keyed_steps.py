"""Makes a stage of the plan from a keyed step of a job. Spark analyses columns, expressions and types."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from mixedmode.analysis.catalyst import read_expression, read_frame
from mixedmode.analysis.column_types import input_fields, input_type
from mixedmode.analysis.declared import check_declared, declared_fields, declared_outputs
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.relations import Relation
from mixedmode.analysis.sql_checks import check_argument, check_literals
from mixedmode.config import DeduplicateStep, KeyedAggregateStep, OneInputStep, OverStep, ProcessStep, TopStep
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.calls import column_in, named, quoted
from mixedmode.config.keyed import key_advice
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import RANK_COLUMN, STEP_KINDS
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import AggregateFunction
from mixedmode.operators.interface import OP_COLUMN, WEIGHT_COLUMN
from mixedmode.plan.keyed_operators import (
    StepColumns,
    Where,
    aggregate_keys,
    arguments_of,
    expressions_of,
    no_event_time,
    operator_of,
    output_function,
    takes_changes,
)
from mixedmode.plan.keyed_stages import Upstream, aggregate_stage, process_stage, ranked_stage
from mixedmode.plan.ranked_operators import RankedColumns, orders_of
from mixedmode.plan.reads import Reads
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stages import ALL_ROWS, WINDOW_TIME, KeyedStage
from mixedmode.sinks import EPOCH_COLUMN
from mixedmode.spark.errors import REFUSALS, refused_expression
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD
from mixedmode.tasks.reports import REPORT_COLUMN

RESERVED = frozenset({OP_COLUMN, EPOCH_COLUMN, WEIGHT_COLUMN, REPORT_COLUMN, ATTEMPT_FIELD.name, ALL_ROWS.name})


@dataclass(frozen=True, slots=True)
class StepInput:
    """The input of a keyed step: the relations that it reads as one, and the step's position in the job."""

    relations: Sequence[Relation]
    upstream: Upstream

    @property
    def frame(self) -> DataFrame:
        """A streaming stand-in of the rows."""
        return self.relations[0].frame

    @property
    def row_key(self) -> RowKey:
        """The columns that no two of the rows share (see RowKey)."""
        return self.relations[0].row_key if len(self.relations) == 1 else None


def check_alike(first: Mapping[str, object], other: Mapping[str, object], names: tuple[str, str], where: str) -> None:
    """Raise InvalidJobError unless two inputs of a step have the same columns, in any order.

    first, other: {name of a column in lower case: its type}. names: of the inputs.
    """
    if first != other:
        differing = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        msg = (
            f"{where}: a step reads the rows of several inputs as one, so they need the same columns of the same "
            "types. Make them so in sql steps, one for each input. "
            f"inputs={', '.join(names)}, differing={', '.join(differing)}"
        )
        raise InvalidJobError(msg)


def with_computed_keys(
    frame: DataFrame, step: OneInputStep, input_name: str, where: Where, *, is_changelog: bool
) -> tuple[DataFrame, str | None]:
    """Return (the input of a step with the key columns that it computes, the sql for that); None if it computes none.

    Raise InvalidJobError with every wrong expression.
    """
    found: list[MixedmodeError] = []
    known = {name.lower() for name in frame.columns}
    columns = []
    for name, expression in step.key_expressions.items():
        if name.lower() in known:
            msg = f"{where('key-by')}: the input has a column of this name. Choose another. found={name}"
            found.append(InvalidJobError(msg))
            continue
        columns.append(named(expression, name))
        with collecting(found):
            _, plan = read_expression(frame, expression, name, where("key-by"))
            check_argument(plan, where=where("key-by"), is_keyed=is_changelog)
    raise_all(found)
    if not columns:
        return frame, None
    sql = f"SELECT *, {', '.join(columns)} FROM {quoted(input_name)}"  # noqa: S608 - the job's own SQL
    return frame.selectExpr("*", *columns), sql


class AggregateStage:
    """Builds the stage of one keyed aggregate."""

    def __init__(self, step: KeyedAggregateStep, given: StepInput, where: Where) -> None:
        """`where` names a place in the step."""
        self._step = step
        self._given = given
        self._where = where

    def build(self) -> KeyedStage:
        """Return the stage. Raise InvalidJobError with every mistake, each with its place and Spark's message."""
        step, given = self._step, self._given
        columns, functions = self._checked()
        operator = operator_of(step, columns, functions, self._where)
        late_fields = () if step.late is None else input_fields(given.frame.schema, self._where("late"))
        return aggregate_stage(step, given.upstream, columns, operator, late_fields=late_fields)

    def _checked(self) -> tuple[StepColumns, dict[str, AggregateFunction]]:
        """Return the columns that the step reads, and the functions by output. Raise InvalidJobError as build does.

        A window without event time is one mistake, also if functions of the step need event time too.
        """
        step, given = self._step, self._given
        found: list[MixedmodeError] = []
        keys = aggregate_keys(step, key_fields(given.frame, step.key_columns, self._where("key-by"), found))
        types = self._argument_types(list(expressions_of(step)), found)
        by_clock = step.window is not None and step.window.is_by_clock
        has_time = given.upstream.event_time is not None and not by_clock
        columns = StepColumns(
            keys,
            arguments_of(step, types),
            has_event_time=has_time,
            is_changelog=given.upstream.is_changelog,
            window_bounds=given.upstream.window_bounds,
        )
        if columns.is_window_keyed and step.window is None:
            found += names_taken(step, self._where)
        if given.upstream.is_changelog and not takes_changes(step, has_event_time=has_time):
            found.append(rows_change(self._where("window"), given.upstream.reads))
            columns = replace(columns, has_event_time=True)
        elif by_clock:
            columns = replace(columns, has_event_time=True)
        elif step.window is not None and not has_time:
            is_first = given.upstream.keyed_before == 0
            found.append(InvalidJobError(no_event_time(self._where("window"), is_first=is_first)))
            columns = replace(columns, has_event_time=True)
        functions = {}
        for name, call in step.aggregate.items():
            if types.keys() >= set(call.expressions):
                with collecting(found):
                    functions[name] = output_function(name, step, columns, self._where)
        raise_all(found)
        return columns, functions

    def _argument_types(self, texts: Sequence[str], found: list[MixedmodeError]) -> dict[str, pa.DataType]:
        """Return the types of those arguments that have no mistake. Append the mistakes to `found`.

        Spark analyses all of them at once, and if any has a mistake, one after the other.
        """
        if len(texts) > 1:
            with suppress(*REFUSALS, InvalidJobError, ValueError):  # `a.*` is several columns
                return dict(zip(texts, self._analysed(texts, self._where("aggregate")), strict=True))
        arguments: dict[str, pa.DataType] = {}
        for text in texts:
            output = next(name for name, call in self._step.aggregate.items() if text in call.expressions)
            where = self._where("aggregate", output)
            with collecting(found):
                try:
                    arguments[text] = self._analysed([text], where)[0]
                except REFUSALS as error:
                    raise refused_expression(where, text, error) from error
        return arguments

    def _analysed(self, texts: Sequence[str], where: str) -> list[pa.DataType]:
        """Return the types of arguments. Raise an error of Spark, or InvalidJobError, for a mistake in any."""
        frame, given = self._given.frame, self._given.upstream
        projected = frame.selectExpr(*(named(text, f"_argument {number}") for number, text in enumerate(texts)))
        for text in texts:
            check_literals(text, where=where)
        check_argument(read_frame(projected, until=frame), where=where, is_keyed=given.is_changelog)
        fields = projected.schema.fields if len(texts) > 1 else [projected.schema[0]]
        return [input_type(one.dataType, f"{where}: {text}") for one, text in zip(fields, texts, strict=True)]


def names_taken(step: KeyedAggregateStep, where: Where) -> list[MixedmodeError]:
    """Return the mistakes of a step whose rows are of windows: the names of its columns that are kept."""
    taken = [name for name in (*step.key_columns, *step.aggregate) if name.lower() == WINDOW_TIME.name]
    msg = (
        f"{where('aggregate')}: the rows of a window have this name for their event time already. Leave it "
        "out of the key, and give results another name. found="
    )
    return [InvalidJobError(msg + name) for name in taken]


def analysed_process(step: ProcessStep, given: StepInput, where: Where) -> KeyedStage:
    """Return the stage of a process step. Raise InvalidJobError with every bad column, type and function."""
    found: list[MixedmodeError] = []
    keys = key_fields(given.frame, step.key_columns, where("key-by"), found)
    fields: tuple[pa.Field, ...] = ()
    with collecting(found):
        fields = input_fields(given.frame.schema, where())
    check_declared(step, where, found)
    if given.upstream.is_changelog:
        found.append(rows_change(where("process"), given.upstream.reads))
    raise_all(found)
    return process_stage(
        step,
        given.upstream,
        keys=keys,
        arguments={quoted(field.name): field for field in fields},
        output_fields=declared_fields(step.output, where("output")),
        function_outputs=declared_outputs(step, where),
        where=where,
        time_zone=str(given.frame.sparkSession.conf.get("spark.sql.session.timeZone")),
    )


def rows_change(where: str, reads: Reads) -> InvalidJobError:
    """Return the error of a step, at `where`, that cannot read the changing results of the steps before it."""
    msg = (
        f"{where}: a step before this one emits results that change later, and this one cannot retract a row. An "
        "aggregate or a top by window_start and window_end has final results only if it reads the rows of a "
        "window without allowed-lateness and early-results-every, and if sql between the two leaves both columns as "
        f"they are. Make it so, or use an aggregate here. changing={', '.join(sorted(reads.changelogs))}"
    )
    return InvalidJobError(msg)


class RankedStage:
    """Builds the stage of one step with `top` or `deduplicate`."""

    def __init__(self, step: TopStep | DeduplicateStep, given: StepInput, where: Where) -> None:
        """`where` names a place in the step."""
        self._step = step
        self._given = given
        self._where = where

    def build(self) -> KeyedStage:
        """Return the stage. Raise InvalidJobError with every bad column and expression, each with its place."""
        step, given = self._step, self._given
        found: list[MixedmodeError] = []
        keys = key_fields(given.frame, step.key_columns, self._where("key-by"), found)
        row = passed_columns(step, given.frame, self._where, found)
        order = []
        for by in orders_of(step, given.upstream.event_time):
            with collecting(found):
                order.append(self._order(by.expression))
        if given.upstream.is_changelog and isinstance(step, DeduplicateStep) and step.is_append_only:
            found.append(rows_change(self._where("deduplicate"), given.upstream.reads))
        raise_all(found)
        row_key = given.row_key if isinstance(step, TopStep) else None
        return ranked_stage(step, given.upstream, RankedColumns(keys, row, order, row_key), self._where)

    def _order(self, text: str) -> tuple[str, pa.DataType]:
        """Return the expression and type of an order column. A column of the input has the expression of the row."""
        frame, step = self._given.frame, self._step
        where = self._where("top", "order-by") if isinstance(step, TopStep) else self._where("deduplicate", "tie-break")
        if isinstance(step, DeduplicateStep):
            text = quoted(key_field(frame, text, where).name)
        return argument_in(frame, text, where, is_changelog=self._given.upstream.is_changelog)


def argument_in(frame: DataFrame, text: str, where: str, *, is_changelog: bool) -> tuple[str, pa.DataType]:
    """Return an expression that a step computes of its input, and its type. A column has the text that a row has.

    is_changelog: the rows of the input may be retracted. Raise InvalidJobError, beginning with `where`, for a bad one.
    """
    name = column_in(text)
    known = {column.lower(): column for column in frame.columns}
    if name is not None and name.lower() in known:
        text = quoted(known[name.lower()])
    projected, plan = read_expression(frame, text, "_argument", where)
    check_argument(plan, where=where, is_keyed=is_changelog)
    return text, input_type(projected.schema[0].dataType, f"{where}: {text}")


def passed_columns(
    step: TopStep | DeduplicateStep | OverStep | ApplyChangesStep,
    frame: DataFrame,
    where: Where,
    found: list[MixedmodeError],
) -> dict[str, pa.Field]:
    """Return {expression: column} of the columns that are no key, which a step passes on.

    Append an error to `found` for each unsuitable one.
    """
    keys, row = {column.lower() for column in step.key_columns}, {}
    for field in frame.schema:
        name = field.name
        if name.lower() in keys:
            continue
        found += column_taken(step, name, where)
        with collecting(found):
            row[quoted(name)] = pa.field(name, input_type(field.dataType, f"{where()}: {name}"))
    return row


def column_taken(
    step: TopStep | DeduplicateStep | OverStep | ApplyChangesStep, column: str, where: Where
) -> list[MixedmodeError]:
    """Return the mistake that a column which a step passes on has a name that is kept, or is the rank; [] if not."""
    kind = next(kind for kind, model in STEP_KINDS.items() if type(step) is model)
    if column.lower() in RESERVED:
        return [column_kept(column, where(kind))]
    if kind != "top" or column.lower() != RANK_COLUMN:
        return []
    msg = f"{where('top')}: the step emits a column of this name. Rename yours in a sql step before. column={column}"
    return [InvalidJobError(msg)]


def key_fields(
    frame: DataFrame, columns: Sequence[str], where: str, found: list[MixedmodeError]
) -> tuple[pa.Field, ...]:
    """Return the key columns of a step's input; append an error to `found` for each one that cannot be a key."""
    keys = []
    for column in columns:
        with collecting(found):
            keys.append(key_field(frame, column, where, key_advice(column)))
    return tuple(keys)


def key_field(frame: DataFrame, column: str, where: str, advice: str = "") -> pa.Field:
    """Return a key column of a step's input. Raise InvalidJobError, beginning with `where`, if it cannot be a key.

    advice: follows the message if there is no such column.
    """
    by_name = {name.lower(): name for name in frame.columns}
    name = by_name.get(column.lower())
    if name is None:
        known, hint = frame.columns, did_you_mean(column, frame.columns) + advice
        msg = f"{where}: there is no column {column}.{hint} Columns here: {', '.join(known)}."
        raise InvalidJobError(msg)
    return checked_key(pa.field(column, input_type(frame.schema[name].dataType, f"{where}: {column}")), where)


def checked_key(field: pa.Field, where: str) -> pa.Field:
    """Return a column. Raise InvalidJobError, beginning with `where`, if it cannot be a key."""
    if field.name.lower() in RESERVED:
        raise column_kept(field.name, where)
    try:
        KeySchema((field,))
    except InvalidJobError as error:
        msg = f"{where}: {error}"
        raise InvalidJobError(msg) from error
    return field


def column_kept(column: str, where: str) -> InvalidJobError:
    """Return the error for a column whose name is kept."""
    msg = f"{where}: this name is kept for the output. Rename it with AS in a sql step. column={column}"
    return InvalidJobError(msg)
