"""Makes a stage of the plan from a keyed step of a job. Spark analyses columns, expressions and types."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from mixedmode.analysis.catalyst import read_frame
from mixedmode.analysis.sql_checks import check_argument
from mixedmode.config import KeyedAggregateStep, ProcessStep
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import operator_id
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.interface import OP_COLUMN, WEIGHT_COLUMN
from mixedmode.operators.process import FunctionReference, ProcessOperator
from mixedmode.plan.fingerprint import aggregate_fingerprint, step_fingerprint
from mixedmode.plan.keyed_operators import StepColumns, Where, aggregate_operator, expressions_of
from mixedmode.plan.stages import KeyedStage, SqlText
from mixedmode.sinks import EPOCH_COLUMN
from mixedmode.sources import parse_ddl
from mixedmode.spark.errors import refused
from mixedmode.spark.frames import IN_UTC, arrow_fields, quoted
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD
from mixedmode.tasks.reports import REPORT_COLUMN

RESERVED = frozenset({OP_COLUMN, EPOCH_COLUMN, WEIGHT_COLUMN, REPORT_COLUMN, ATTEMPT_FIELD.name})


@dataclass(frozen=True, slots=True)
class StepInput:
    """The input of a keyed step: a streaming stand-in, and the sql steps that make the input.

    `keyed_before` is the number of keyed steps upstream; if there is one, the input is a changelog.
    """

    frame: DataFrame
    sql: tuple[SqlText, ...]
    keyed_before: int
    event_time: str | None

    @property
    def is_changelog(self) -> bool:
        """Return whether the input may retract rows."""
        return self.keyed_before > 0


class AggregateStage:
    """Builds the stage of one keyed aggregate."""

    def __init__(self, step: KeyedAggregateStep, given: StepInput, where: Where) -> None:
        """`where` names a place in the step."""
        self._step = step
        self._given = given
        self._where = where

    def build(self) -> KeyedStage:
        """Return the stage. Raise InvalidJobError with the place and Spark's message."""
        step, given = self._step, self._given
        columns = StepColumns(
            keys=tuple(key_field(given.frame, column, self._where("key-by")) for column in step.key_by),
            arguments={text: self._argument_type(text) for text in expressions_of(step)},
            has_event_time=given.event_time is not None,
            is_changelog=given.is_changelog,
        )
        operator = aggregate_operator(step, columns, self._where)
        return KeyedStage(
            operator_id=operator_id(step, given.keyed_before),
            sql=given.sql,
            key_fields=columns.keys,
            arguments=tuple(columns.arguments),
            argument_types=tuple(columns.arguments.values()),
            event_time=given.event_time,
            is_changelog=given.is_changelog,
            operator=operator,
            identity=aggregate_fingerprint(step, columns.keys, columns.arguments, operator),
            late_fields=() if step.late is None else tuple(arrow_fields(given.frame.schema)),
        )

    def _argument_type(self, text: str) -> pa.DataType:
        output = next(name for name, call in self._step.aggregate.items() if text in call.expressions)
        where = self._where("aggregate", output)
        try:
            projected = self._given.frame.selectExpr(f"{text} AS _argument")
            plan = read_frame(projected, until=self._given.frame)
        except PySparkException as error:
            raise refused(where, error) from error
        check_argument(plan, where=where, is_keyed=self._given.is_changelog)
        return arrow_type(projected.schema[0].dataType, f"{where}: {text}")


class ProcessStage:
    """Builds the stage of one process step."""

    def __init__(self, step: ProcessStep, given: StepInput, where: Where) -> None:
        """`where` names a place in the step."""
        self._step = step
        self._given = given
        self._where = where

    def build(self) -> KeyedStage:
        """Return the stage. Raise InvalidJobError, with the place, for a bad column, type or function."""
        step, given = self._step, self._given
        keys = tuple(key_field(given.frame, column, self._where("key-by")) for column in step.key_by)
        record_fields = tuple(arrow_fields(given.frame.schema))
        own_id = operator_id(step, given.keyed_before)
        operator = ProcessOperator(
            operator_id=own_id,
            function=FunctionReference.parse(step.process, step.args, step.folder),
            key_schema=KeySchema(keys),
            record_fields=record_fields,
            output_fields=declared_fields(step.output, self._where("output")),
            function_outputs={
                tag: declared_fields(output.schema_ddl, self._where("outputs", tag, "schema"))
                for tag, output in step.outputs.items()
            },
            on_error=step.on_error,
            has_event_time=given.event_time is not None,
        )
        self._check_function(operator)
        return KeyedStage(
            operator_id=own_id,
            sql=given.sql,
            key_fields=keys,
            arguments=tuple(quoted(field.name) for field in record_fields),
            argument_types=tuple(field.type for field in record_fields),
            event_time=given.event_time,
            is_changelog=False,
            operator=operator,
            identity=step_fingerprint("process", keys),
        )

    def _check_function(self, operator: ProcessOperator) -> None:
        try:
            operator.state_schema()
        except InvalidJobError as error:
            msg = f"{self._where('process')}: {error}"
            raise InvalidJobError(msg) from error


def key_field(frame: DataFrame, column: str, where: str) -> pa.Field:
    """Return a key column of a step's input. Raise InvalidJobError, beginning with `where`, if it cannot be a key."""
    by_name = {name.lower(): name for name in frame.columns}
    name = by_name.get(column.lower())
    if name is None:
        known = frame.columns
        msg = f"{where}: there is no column {column}.{did_you_mean(column, known)} Columns here: {', '.join(known)}."
        raise InvalidJobError(msg)
    if column.lower() in RESERVED:
        msg = f"{where}: this name is kept for the output. Rename it with AS in a sql step. column={column}"
        raise InvalidJobError(msg)
    field = pa.field(column, arrow_type(frame.schema[name].dataType, f"{where}: {column}"))
    try:
        KeySchema((field,))
    except InvalidJobError as error:
        msg = f"{where}: {error}"
        raise InvalidJobError(msg) from error
    return field


def declared_fields(ddl: str, where: str) -> tuple[pa.Field, ...]:
    """Return the declared output of a function as Arrow fields. Raise InvalidJobError, beginning with `where`."""
    fields = arrow_fields(parse_ddl(ddl, where=where))
    taken = [field.name for field in fields if field.name.startswith("_")]
    if taken:
        msg = f"{where}: names that start with _ are kept for columns such as _op. Choose another. column={taken[0]}"
        raise InvalidJobError(msg)
    return tuple(fields)


def arrow_type(data_type: DataType, where: str) -> pa.DataType:
    """Return Spark's type as an Arrow type. Raise InvalidJobError, beginning with `where`, if there is none."""
    try:
        return to_arrow_type(data_type, **IN_UTC)
    except PySparkException as error:
        msg = f"{where}: this type cannot be used here. Cast it in a sql step. type={data_type.simpleString()}"
        raise InvalidJobError(msg) from error
