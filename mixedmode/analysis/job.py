"""Makes a plan of a job spec. Spark analyses SQL and types; a Spark job runs only to read a schema from files.

In every mode, each sql step is analysed over streaming stand-ins of its input. Its plan is checked, and SQL that could
return other rows live than in batch is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampNTZType, TimestampType

from mixedmode.analysis.catalyst import column_ids, read_frame, read_query
from mixedmode.analysis.keyed_steps import AggregateStage, ProcessStage, StepInput
from mixedmode.analysis.map_steps import MapInput, map_stage
from mixedmode.analysis.plan import Node
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.source_rows import columns_of_source
from mixedmode.analysis.sql_checks import check_keys_kept, check_query, check_repeatable, check_stateless, inputs_of
from mixedmode.config import (
    FileSourceSpec,
    JobSpec,
    KeyedAggregateStep,
    MapStep,
    ProcessStep,
    SinkSpec,
    SourceSpec,
    SqlStep,
)
from mixedmode.config.calls import is_column
from mixedmode.config.drift import Drift
from mixedmode.config.modes import resolve_mode
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import UpsertOperator, argument_name
from mixedmode.operators.interface import TIME_COLUMN
from mixedmode.plan.explain_steps import goes_by_time
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import (
    DEAD_LETTER,
    LATE,
    JobPlan,
    KeyedStage,
    MapStage,
    ReadColumn,
    SourceRows,
    SqlText,
    dead_letter_output,
)
from mixedmode.sources import Admission, OpenSource, open_source
from mixedmode.sources.parquet_files import is_plain_folder
from mixedmode.spark.errors import refused
from mixedmode.spark.frames import arrow_fields, quoted, stand_in, views
from mixedmode.spark.session import check_session, cores
from mixedmode.tasks.exchange import KEY_PREFIX
from mixedmode.time import Strategy

PREVIOUS = "previous"  # the name by which a sql step reads the output of the previous step


@dataclass(frozen=True, slots=True)
class Analysis:
    """A plan, and the opened sources by name."""

    plan: JobPlan
    sources: Mapping[str, OpenSource]


def analyse(session: SparkSession, spec: JobSpec, where: Where) -> Analysis:
    """Return the plan of a job, and its opened sources.

    Raise InvalidJobError with every problem, its place and Spark's message. A problem that may only follow from another
    one is left out.
    """
    check_session(session, spec.spark)
    found: list[MixedmodeError] = []
    sources: dict[str, OpenSource] = {}
    event_times: dict[str, str] = {}
    for name, source in spec.sources.items():
        with collecting(found):
            sources[name] = open_source(session, source, where=where("sources", name))
            event_times |= _event_times(spec, {name: sources[name].schema}, where)
    analysis = None
    if len(sources) == len(spec.sources):
        of_steps: list[MixedmodeError] = []
        with collecting(of_steps):
            analysis = Analysis(_Chain(session, spec, sources, event_times, where).plan(), sources)
        # with an error in a source, only errors of sql are sure not to follow from it
        found += [error for error in of_steps if not found or "].sql: " in str(error)]
    raise_all(found)
    assert analysis is not None, spec.name
    return analysis


class _Chain:
    """Walks the steps. Between two steps it holds a streaming stand-in of the previous step's output."""

    def __init__(
        self,
        session: SparkSession,
        spec: JobSpec,
        sources: Mapping[str, OpenSource],
        event_times: Mapping[str, str],
        where: Where,
    ) -> None:
        self._session = session
        self._spec = spec
        self._where = where
        self._event_times = event_times
        self._sources = {name: source.stream(Admission()) for name, source in sources.items()}
        self._current = self._keyed_rows = next(iter(self._sources.values()))
        self._names = self._sources_read = tuple(self._sources)
        self._sql: list[SqlText] = []
        self._maps: list[MapStage] = []
        self._stages: list[KeyedStage] = []
        self._first_input: DataFrame | None = None  # the input of the first map or keyed step
        self._partitions = _partitions(spec, {name: source.schema for name, source in sources.items()}, where)

    def plan(self) -> JobPlan:
        """Return the plan of all steps."""
        for index, step in enumerate(self._spec.steps):
            if isinstance(step, SqlStep):
                self._add_sql(index, step)
            elif isinstance(step, MapStep):
                self._add_map(index, step)
            else:
                self._add_keyed(index, step)
            self._names = (PREVIOUS,) if step.name is None else (PREVIOUS, step.name)
        key_columns: tuple[str, ...] = ()
        if self._stages:
            key_columns = tuple(field.name for field in self._stages[-1].operator.output_key)
            if self._sql and key_columns:
                self._add_upsert(key_columns)
        strategies, source_rows = self._watermarks()
        return JobPlan(
            sql=tuple(self._sql),
            stages=_with_previous(self._stages),
            output_fields=tuple(arrow_fields(self._current.schema)),
            key_columns=key_columns,
            reads=self._reads(),
            sources_read=self._sources_read,
            event_times=self._event_times,
            strategies=strategies,
            side_sinks=_side_sinks(self._spec),
            maps=tuple(self._maps),
            dead_letters=tuple(name for name, source in self._spec.sources.items() if source.outputs),
            source_rows=source_rows,
            partitions={name: column for name, column in self._partitions.items() if name in strategies},
        )

    def _watermarks(self) -> tuple[dict[str, Strategy], SourceRows | None]:
        """Return the watermark strategy of each source, and the rows with its event times (see JobPlan.source_rows).

        If no step depends on the watermark, there are no strategies, and no source is read a second time.
        """
        declared = [name for name in self._sources_read if name in self._event_times]
        rows = self._source_rows()
        if not self._stages or not declared or (rows is None and not self._goes_by_watermark()):
            return {}, SourceRows()
        return {name: _strategy(self._spec.sources[name]) for name in declared}, rows

    def _source_rows(self) -> SourceRows | None:
        """Return the event-time and partition columns of the first step's input; None if its rows are no records."""
        name = self._sources_read[0]
        if len(self._sources_read) > 1 or self._first_input is None or name not in self._event_times:
            return None
        columns = columns_of_source(self._first_input, self._sources[name])
        wanted = [self._event_times[name], *([self._partitions[name]] if name in self._partitions else [])]
        if columns is None or any(column not in columns for column in wanted):
            return None
        return SourceRows(*(columns[column] for column in wanted))

    def _goes_by_watermark(self) -> bool:
        if resolve_mode(self._spec).mode == "batch":
            return False  # its only watermark is the end of time
        has_threshold = self._spec.pipeline.backlog.watermark_lag_threshold_ms is not None
        return has_threshold or bool(self._maps) or any(goes_by_time(stage) for stage in self._stages)

    def _reads(self) -> tuple[ReadColumn, ...]:
        """Return the columns of the first keyed stage, () unless map tasks can read them from local Parquet files."""
        source = next(iter(self._spec.sources.values()))
        if len(self._sources) > 1 or not _is_plain_parquet(source) or not self._stages or self._stages[0].sql:
            return ()
        if self._maps or self._stages[0].late_fields or self._partitions:
            return ()
        stage, schema = self._stages[0], next(iter(self._sources.values())).schema
        types = {field.name.lower(): field.dataType for field in schema}
        columns = [_column_in(text) for text in stage.arguments]
        named = all(column is not None and column.lower() in types for column in columns)
        named = named and not any(map(pa.types.is_nested, stage.argument_types))
        has_instants = stage.event_time is None or isinstance(types[stage.event_time.lower()], TimestampType)
        if not (named and has_instants):
            return ()
        reads = [ReadColumn(f.name, f.type, f"{KEY_PREFIX}{i}") for i, f in enumerate(stage.key_fields)]
        arguments = zip(columns, stage.argument_types, strict=True)
        reads += [ReadColumn(str(name), data_type, argument_name(i)) for i, (name, data_type) in enumerate(arguments)]
        if stage.event_time is not None:
            reads.append(ReadColumn(stage.event_time, pa.timestamp("us", "UTC"), TIME_COLUMN))
        assert isinstance(source, FileSourceSpec), source
        drift = replace(source.drift or Drift(), declared=tuple(schema.names))
        return tuple(replace(column, drift=drift) for column in reads)

    def _add_sql(self, index: int, step: SqlStep) -> None:
        where = self._where("steps", index, "sql")
        text = SqlText(step.sql, self._names)
        is_first = not self._stages and not self._maps and not self._sql
        inputs = self._sources if is_first else dict.fromkeys(self._names, self._current)
        try:
            with views(self._session, inputs):
                plan = check_query(read_query(self._session, step.sql, inputs=inputs), where=where)
                result = self._session.sql(step.sql)
        except PySparkException as error:
            raise refused(where, error, readable=tuple(inputs)) from error
        self._check_plan(plan, step, where)
        if is_first:
            self._sources_read = tuple(name for name in self._sources if name.lower() in inputs_of(plan))
        _check_columns(result, where)
        self._current = result
        self._sql.append(text)

    def _add_map(self, index: int, step: MapStep) -> None:
        if self._first_input is None:
            self._first_input = self._current
        given = MapInput(
            frame=self._current,
            sql=tuple(self._sql),
            maps_before=len(self._maps),
            sources_read=self._sources_read,
            parallelism=step.parallelism
            or self._spec.parallelism
            or min(cores(self._session), self._spec.pipeline.max_parallelism),
        )
        stage = map_stage(step, given, self._spec, partial(self._where, "steps", index))
        self._maps.append(stage)
        self._sql = []
        self._current = self._keyed_rows = stand_in(self._session, stage.operator.output_fields)
        _check_columns(self._current, self._where("steps", index, "output"))

    def _add_keyed(self, index: int, step: KeyedAggregateStep | ProcessStep) -> None:
        if self._first_input is None:
            self._first_input = self._current
        given = StepInput(
            frame=self._current,
            sql=tuple(self._sql),
            keyed_before=len(self._stages),
            event_time=None if self._stages else _find_event_time(self._current, self._event_times),
        )
        where = partial(self._where, "steps", index)
        if isinstance(step, ProcessStep):
            self._append(ProcessStage(step, given, where).build())
        else:
            self._append(AggregateStage(step, given, where).build())

    def _add_upsert(self, key_columns: tuple[str, ...]) -> None:
        """Add a stage that makes upserts, by the last keyed step's key, of the rows of the sql after that step."""
        last_sql = max(index for index, step in enumerate(self._spec.steps) if isinstance(step, SqlStep))
        where = self._where("steps", last_sql, "sql")
        fields = {field.name: field for field in arrow_fields(self._current.schema)}
        missing = [name for name in key_columns if name not in fields]
        if missing:
            msg = (
                f"{where}: the sql after the last key-by drops its key, so a changed row could not be found again in "
                f"the output. Select the key columns too. missing={', '.join(missing)}"
            )
            raise InvalidJobError(msg)
        plan = read_frame(self._current, until=self._keyed_rows)
        before, after = column_ids(self._keyed_rows), column_ids(self._current)
        check_keys_kept(plan, before, after, key_columns, where=where)
        keys = KeySchema(tuple(fields[name] for name in key_columns))
        rest = [field for name, field in fields.items() if name not in key_columns]
        self._append(
            KeyedStage(
                operator_id="upsert",
                sql=tuple(self._sql),
                key_fields=keys.fields,
                arguments=tuple(quoted(field.name) for field in rest),
                argument_types=tuple(field.type for field in rest),
                event_time=None,
                is_changelog=True,
                operator=UpsertOperator(keys, tuple(rest)),
                identity=step_fingerprint("upsert"),
            )
        )

    def _check_plan(self, plan: Node, step: SqlStep, where: str) -> None:
        check_stateless(plan, where=where)
        check_repeatable(plan, where=where, is_keyed=bool(self._stages), allows_clock=step.clock == "allowed")

    def _append(self, stage: KeyedStage) -> None:
        self._stages.append(stage)
        self._sql = []
        self._current = self._keyed_rows = stand_in(self._session, stage.operator.output_fields)


def _with_previous(stages: Sequence[KeyedStage]) -> tuple[KeyedStage, ...]:
    """Return the stages; all but the last also emit retractions."""
    return tuple(stage if stage is stages[-1] else stage.with_retractions() for stage in stages)


def _event_times(spec: JobSpec, schemas: Mapping[str, StructType], where: Where) -> dict[str, str]:
    found = {}
    for name in schemas:
        source = spec.sources[name]
        if source.event_time is None:
            continue
        place = where("sources", name, "event-time")
        field = _column_of(schemas[name], source.event_time, place)
        _check_event_time(field.dataType, source.event_time, place)
        found[name] = field.name
    return found


def _partitions(spec: JobSpec, schemas: Mapping[str, StructType], where: Where) -> dict[str, str]:
    """Return {source: its partition column}. Raise InvalidJobError if a source does not have the column."""
    found = {}
    for name, source in spec.sources.items():
        if source.watermark.partition_column is not None:
            place = where("sources", name, "watermark", "partition-column")
            found[name] = _column_of(schemas[name], source.watermark.partition_column, place).name
    return found


def _column_of(schema: StructType, column: str, place: str) -> StructField:
    """Return a column of a source, found by its name without regard to case."""
    columns = {field.name.lower(): field for field in schema}
    if column.lower() not in columns:
        known = schema.names
        msg = f"{place}: there is no column {column}.{did_you_mean(column, known)} Columns here: {', '.join(known)}."
        raise InvalidJobError(msg)
    return columns[column.lower()]


def _check_event_time(data_type: DataType, column: str, place: str) -> None:
    if not isinstance(data_type, TimestampType | TimestampNTZType | DateType):
        msg = (
            f"{place}: event time must be a timestamp. Give the column the type timestamp in `schema`. "
            f"column={column}, type={data_type.simpleString()}"
        )
        raise InvalidJobError(msg)


def _find_event_time(frame: DataFrame, event_times: Mapping[str, str]) -> str | None:
    """Return the event-time column of the first keyed step's input; None if the sql before it did not keep one."""
    wanted = {column.lower() for column in event_times.values()}
    for field in frame.schema:
        is_time = isinstance(field.dataType, TimestampType | TimestampNTZType | DateType)
        if field.name.lower() in wanted and is_time:
            return str(field.name)
    return None


def _check_columns(frame: DataFrame, where: str) -> None:
    names = [name.lower() for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            msg = f"{where}: two columns have one name. Rename one of them with AS. column={name}"
            raise InvalidJobError(msg)
        if name.startswith("_"):
            msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={name}"
            raise InvalidJobError(msg)


def _column_in(text: str) -> str | None:
    """Return the column name if an expression is only a column, quoted or not; else None."""
    if text.startswith("`") and text.endswith("`"):
        return text[1:-1].replace("``", "`")
    return text if is_column(text) else None


def _is_plain_parquet(source: SourceSpec) -> bool:
    if not isinstance(source, FileSourceSpec):
        return False
    return source.format == "parquet" and not source.options and is_plain_folder(source.path)


def _strategy(source: SourceSpec) -> Strategy:
    watermark = source.watermark
    return Strategy(1000 * watermark.out_of_orderness_ms, watermark.idle_timeout_ms, watermark.max_ahead_ms)


def _side_sinks(spec: JobSpec) -> dict[str, SinkSpec]:
    sinks: dict[str, SinkSpec] = {
        dead_letter_output(name): sink for name, source in spec.sources.items() for sink in source.outputs.values()
    }
    for step in spec.steps:
        if isinstance(step, KeyedAggregateStep) and step.late is not None:
            sinks[LATE] = step.late
        if isinstance(step, ProcessStep):
            sinks |= step.outputs
            if step.dead_letter is not None:
                sinks[DEAD_LETTER] = step.dead_letter
    return sinks
