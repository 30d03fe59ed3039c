"""From a job spec to a plan, with Spark as the judge of SQL and types. Only reading a schema from files runs a job.

Every sql step is checked on streaming stand-ins of its input, in every mode: what Spark marks as stateful there would
answer differently in batch and live, and is refused.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, DateType, StructType, TimestampNTZType, TimestampType

from mixedmode.config import AggregateCall, JobSpec, KeyedAggregateStep, SqlStep
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.job.plan import JobPlan, KeyedOperator, KeyedStage, ReadColumn, SqlText
from mixedmode.keys import KeySchema
from mixedmode.runtime.direct import is_plain_folder
from mixedmode.runtime.exchange import KEY_PREFIX, TIME_COLUMN
from mixedmode.runtime.spark_errors import condition, spark_text
from mixedmode.runtime.sql_checks import (
    check_keys_kept,
    check_one_value,
    check_repeatable,
    check_stateless,
    frame_plan,
    query_plan,
    sources_in,
)
from mixedmode.runtime.subtask import REPORT_COLUMN
from mixedmode.sinks import EPOCH_COLUMN
from mixedmode.sources import Admission, read_stream, source_schema
from operators.aggregate import (
    OP_COLUMN,
    WEIGHT_COLUMN,
    AggregateFunction,
    AggregateOperator,
    MultisetAggregateOperator,
    UpsertOperator,
    aggregate_function,
    aggregator_for,
    argument_name,
)

Where = Callable[..., str]
_RESERVED = frozenset({OP_COLUMN, EPOCH_COLUMN, WEIGHT_COLUMN, REPORT_COLUMN})
PREVIOUS = "previous"  # the name under which a sql step reads what the step before it gives


@dataclass(frozen=True, slots=True)
class Analysis:
    """A plan, and the schema of each source."""

    plan: JobPlan
    schemas: Mapping[str, StructType]


def analyse(session: SparkSession, spec: JobSpec, where: Where) -> Analysis:
    """The plan of a job. Raises InvalidJobError with the place and what Spark says about it."""
    schemas = {
        name: source_schema(session, source, where=where("sources", name)) for name, source in spec.sources.items()
    }
    event_times = _event_times(spec, schemas, where)
    return Analysis(_Chain(session, spec, schemas, event_times, where).plan(), schemas)


class _Chain:
    """Walks the steps. Between two steps it holds a streaming stand-in of what the step before gives."""

    def __init__(
        self,
        session: SparkSession,
        spec: JobSpec,
        schemas: Mapping[str, StructType],
        event_times: Mapping[str, str],
        where: Where,
    ) -> None:
        self._session = session
        self._spec = spec
        self._where = where
        self._event_times = event_times
        self._sources = {
            name: read_stream(session, source, schemas[name], Admission()) for name, source in spec.sources.items()
        }
        self._current = self._keyed_rows = next(iter(self._sources.values()))
        self._names = self._sources_read = tuple(self._sources)
        self._sql: list[SqlText] = []
        self._stages: list[KeyedStage] = []

    def plan(self) -> JobPlan:
        """The plan of all steps."""
        for index, step in enumerate(self._spec.steps):
            if isinstance(step, SqlStep):
                self._add_sql(index, step)
            else:
                self._add_keyed(index, step)
            self._names = (PREVIOUS,) if step.name is None else (PREVIOUS, step.name)
        key_columns: tuple[str, ...] = ()
        if self._stages:
            key_columns = tuple(field.name for field in self._stages[-1].key_schema.fields)
            if self._sql:
                self._add_upsert(key_columns)
        return JobPlan(
            sql=() if self._stages else tuple(self._sql),
            stages=_with_previous(self._stages),
            output_fields=tuple(_arrow_fields(self._current.schema)),
            key_columns=key_columns,
            reads=self._reads(),
            sources_read=self._sources_read,
            event_times=self._event_times,
        )

    def _reads(self) -> tuple[ReadColumn, ...]:
        """The columns of the first keyed stage, if map tasks can read them from local Parquet files themselves."""
        source = next(iter(self._spec.sources.values()))
        is_plain = len(self._sources) == 1 and source.format == "parquet" and not source.options
        if not (is_plain and self._stages and not self._stages[0].sql and is_plain_folder(source.path)):
            return ()
        stage, schema = self._stages[0], next(iter(self._sources.values())).schema
        types = {field.name.lower(): field.dataType for field in schema}
        named = all(AggregateCall("min", text).is_column and text.lower() in types for text in stage.arguments)
        has_instants = stage.event_time is None or isinstance(types[stage.event_time.lower()], TimestampType)
        if not (named and has_instants):
            return ()
        reads = [ReadColumn(f.name, f.type, f"{KEY_PREFIX}{i}") for i, f in enumerate(stage.key_schema.fields)]
        arguments = zip(stage.arguments, stage.argument_types, strict=True)
        reads += [ReadColumn(text, data_type, argument_name(i)) for i, (text, data_type) in enumerate(arguments)]
        if stage.event_time is not None:
            reads.append(ReadColumn(stage.event_time, pa.timestamp("us", "UTC"), TIME_COLUMN))
        return tuple(reads)

    def _add_sql(self, index: int, step: SqlStep) -> None:
        where = self._where("steps", index, "sql")
        text = SqlText(step.sql, self._names)
        is_first = not self._stages and not self._sql
        inputs = self._sources if is_first else dict.fromkeys(self._names, self._current)
        try:
            with views(self._session, inputs):
                plan = query_plan(self._session, step.sql, where=where)
                result = self._session.sql(step.sql)
        except PySparkException as error:
            raise _refused(where, error, inputs) from error
        self._check_plan(plan, where)
        if is_first:
            self._sources_read = sources_in(plan)
        _check_columns(result, where)
        self._current = result
        self._sql.append(text)

    def _add_keyed(self, index: int, step: KeyedAggregateStep) -> None:
        keys = KeySchema(tuple(self._key_field(index, column) for column in step.key_by))
        calls = dict(step.aggregate)
        arguments = tuple(dict.fromkeys(call.argument for call in calls.values() if call.argument is not None))
        types = {text: self._argument_type(index, step, text) for text in arguments}
        event_time = None if self._stages else _find_event_time(self._current, self._event_times)
        functions = {
            name: self._function(index, name, call, arguments, types, has_event_time=event_time is not None)
            for name, call in calls.items()
        }
        operator = self._operator(functions, keys, tuple(types[text] for text in arguments))
        results = tuple(pa.field(name, function.result_type) for name, function in functions.items())
        stage = KeyedStage(
            operator_id=step.name or f"aggregate-{len(self._stages) + 1}",
            sql=tuple(self._sql),
            key_schema=keys,
            arguments=arguments,
            argument_types=tuple(types[text] for text in arguments),
            event_time=event_time,
            is_change_log=bool(self._stages),
            operator=operator,
            result_fields=results,
            description=_description(keys, arguments, operator),
        )
        self._append(stage)

    def _add_upsert(self, key_columns: tuple[str, ...]) -> None:
        """What sql makes of the last keyed step's rows, as upserts of that step's key."""
        last_sql = max(index for index, step in enumerate(self._spec.steps) if isinstance(step, SqlStep))
        where = self._where("steps", last_sql, "sql")
        fields = {field.name: field for field in _arrow_fields(self._current.schema)}
        missing = [name for name in key_columns if name not in fields]
        if missing:
            msg = (
                f"{where}: the sql after the last key-by drops its key, so a changed row could not be found again in "
                f"the output. Select the key columns too. missing={', '.join(missing)}"
            )
            raise InvalidJobError(msg)
        check_keys_kept(self._keyed_rows, self._current, key_columns, where=where)
        keys = KeySchema(tuple(fields[name] for name in key_columns))
        rest = [field for name, field in fields.items() if name not in key_columns]
        types = tuple(field.type for field in rest)
        self._append(
            KeyedStage(
                operator_id="upsert",
                sql=tuple(self._sql),
                key_schema=keys,
                arguments=tuple(quoted(field.name) for field in rest),
                argument_types=types,
                event_time=None,
                is_change_log=True,
                operator=UpsertOperator(keys, types),
                result_fields=tuple(rest),
                description="upsert",
            )
        )

    def _check_plan(self, plan: str, where: str) -> None:
        check_stateless(plan, where=where)
        if self._stages:
            check_repeatable(plan, where=where)

    def _append(self, stage: KeyedStage) -> None:
        self._stages.append(stage)
        self._sql = []
        self._current = self._keyed_rows = _stand_in(self._session, stage.output_fields)

    def _operator(
        self, functions: Mapping[str, AggregateFunction], keys: KeySchema, types: tuple[pa.DataType, ...]
    ) -> KeyedOperator:
        is_change_log = bool(self._stages)
        aggregator = aggregator_for(functions, arguments=len(types), counts_rows=is_change_log)
        if is_change_log and not aggregator.is_invertible:
            return MultisetAggregateOperator(aggregator, keys, types, needs_previous=False)
        return AggregateOperator(aggregator, keys, is_change_log=is_change_log, needs_previous=False)

    def _function(
        self,
        index: int,
        name: str,
        call: AggregateCall,
        arguments: tuple[str, ...],
        types: Mapping[str, pa.DataType],
        *,
        has_event_time: bool,
    ) -> AggregateFunction:
        argument = None if call.argument is None else arguments.index(call.argument)
        argument_type = None if call.argument is None else types[call.argument]
        where = self._where("steps", index, "aggregate", name)
        return aggregate_function(call.function, argument, argument_type, has_event_time=has_event_time, where=where)

    def _key_field(self, index: int, column: str) -> pa.Field:
        where = self._where("steps", index, "key-by")
        by_name = {name.lower(): name for name in self._current.columns}
        name = by_name.get(column.lower())
        if name is None:
            known = self._current.columns
            msg = (
                f"{where}: there is no column {column}.{did_you_mean(column, known)} Columns here: {', '.join(known)}."
            )
            raise InvalidJobError(msg)
        if column.lower() in _RESERVED:
            msg = f"{where}: this name is kept for the output. Rename it with AS in a sql step. column={column}"
            raise InvalidJobError(msg)
        field = pa.field(column, _arrow_type(self._current.schema[name].dataType, f"{where}: {column}"))
        try:
            KeySchema((field,))
        except InvalidJobError as error:
            msg = f"{where}: {error}"
            raise InvalidJobError(msg) from error
        return field

    def _argument_type(self, index: int, step: KeyedAggregateStep, text: str) -> pa.DataType:
        output = next(name for name, call in step.aggregate.items() if call.argument == text)
        where = self._where("steps", index, "aggregate", output)
        try:
            projected = self._current.selectExpr(f"{text} AS _argument")
            plan = frame_plan(projected)
        except PySparkException as error:
            raise _refused(where, error, {}) from error
        self._check_plan(plan, where)
        check_one_value(plan, where=where)
        return _arrow_type(projected.schema[0].dataType, f"{where}: {text}")


@contextlib.contextmanager
def views(session: SparkSession, frames: Mapping[str, DataFrame]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """`frames` as temporary views of those names while the block runs."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in frames:
            session.catalog.dropTempView(name)


def apply_sql(session: SparkSession, frame: DataFrame, steps: Sequence[SqlText]) -> DataFrame:
    """What the sql steps make of a frame."""
    for step in steps:
        with views(session, dict.fromkeys(step.input_names, frame)):
            frame = session.sql(step.text)
    return frame


def spark_schema(fields: Sequence[pa.Field]) -> StructType:
    """Arrow fields as a Spark schema."""
    schema = StructType()
    for field in fields:
        schema = schema.add(field.name, from_arrow_type(field.type))
    return schema


def _with_previous(stages: Sequence[KeyedStage]) -> tuple[KeyedStage, ...]:
    """All stages but the last also give the rows that a change replaces."""
    return tuple(stage if stage is stages[-1] else stage.giving_previous() for stage in stages)


def _event_times(spec: JobSpec, schemas: Mapping[str, StructType], where: Where) -> dict[str, str]:
    found = {}
    for name, source in spec.sources.items():
        if source.event_time is None:
            continue
        place = where("sources", name, "event-time")
        columns = {field.name.lower(): field for field in schemas[name]}
        field = columns.get(source.event_time.lower())
        if field is None:
            known = schemas[name].names
            msg = (
                f"{place}: there is no column {source.event_time}.{did_you_mean(source.event_time, known)} "
                f"Columns here: {', '.join(known)}."
            )
            raise InvalidJobError(msg)
        _check_event_time(field.dataType, source.event_time, place)
        found[name] = field.name
    return found


def _check_event_time(data_type: DataType, column: str, place: str) -> None:
    if not isinstance(data_type, TimestampType | TimestampNTZType | DateType):
        msg = (
            f"{place}: event time must be a timestamp. Give the column the type timestamp in `schema`. "
            f"column={column}, type={data_type.simpleString()}"
        )
        raise InvalidJobError(msg)


def _find_event_time(frame: DataFrame, event_times: Mapping[str, str]) -> str | None:
    """The event-time column of the first keyed step's input, if the sql before it kept one."""
    wanted = {column.lower() for column in event_times.values()}
    for field in frame.schema:
        is_time = isinstance(field.dataType, TimestampType | TimestampNTZType | DateType)
        if field.name.lower() in wanted and is_time:
            return str(field.name)
    return None


def _stand_in(session: SparkSession, fields: Sequence[pa.Field]) -> DataFrame:
    """A streaming frame with these columns, for analysis only."""
    schema = spark_schema(fields)
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {quoted(field.name)}" for field in schema]
    return session.readStream.format("rate").load().selectExpr(*columns)


def quoted(name: str) -> str:
    """A column name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _check_columns(frame: DataFrame, where: str) -> None:
    names = [name.lower() for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            msg = f"{where}: two columns have one name. Rename one of them with AS. column={name}"
            raise InvalidJobError(msg)
        if name.startswith("_"):
            msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={name}"
            raise InvalidJobError(msg)


def _refused(where: str, error: PySparkException, inputs: Mapping[str, DataFrame]) -> InvalidJobError:
    hint = ""
    if condition(error).startswith("TABLE_OR_VIEW_NOT_FOUND") and inputs:
        hint = f" This step can read: {', '.join(inputs)}."
    return InvalidJobError(f"{where}: Spark refuses this SQL.{hint} cause={spark_text(error)}")


def _arrow_fields(schema: StructType) -> list[pa.Field]:
    return [pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")) for field in schema]


def _arrow_type(data_type: DataType, where: str) -> pa.DataType:
    try:
        return to_arrow_type(data_type, timezone="UTC")
    except PySparkException as error:
        msg = f"{where}: this type cannot be used here. Cast it in a sql step. type={data_type.simpleString()}"
        raise InvalidJobError(msg) from error


def _description(keys: KeySchema, arguments: Sequence[str], operator: KeyedOperator) -> str:
    """The identity of a stage's state, readable in an error message."""
    columns = ", ".join(f"{field.name} {field.type}" for field in keys.fields)
    if isinstance(operator, AggregateOperator):
        registers = "; ".join(str(register) for register in operator.aggregator.registers)
        return f"key-by ({columns}) over ({', '.join(arguments)}) keeping {registers}"
    return f"key-by ({columns}) over ({', '.join(arguments)}) keeping rows"
