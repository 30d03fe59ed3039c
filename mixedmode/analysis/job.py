"""Makes a plan of a job spec. Spark analyses SQL and types; a Spark job runs only to read a schema from files.

In every mode, each sql step is analysed over streaming stand-ins of its input. Its plan is checked, and SQL that could
return other rows live than in batch is refused.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.alone import check_alone
from mixedmode.analysis.catalyst import column_ids, read_frame, read_query
from mixedmode.analysis.direct_reads import columns_to_read
from mixedmode.analysis.event_times import find_event_time, strategy_of
from mixedmode.analysis.functions import register_functions
from mixedmode.analysis.keyed_steps import StepInput, declared_fields, keyed_stage, with_computed_keys
from mixedmode.analysis.map_steps import MapInput, map_stage
from mixedmode.analysis.open_sources import OpenSources
from mixedmode.analysis.outputs import side_sinks
from mixedmode.analysis.plan import Node, nodes_of
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.source_rows import columns_of_source
from mixedmode.analysis.sql_checks import check_query, check_repeatable, check_stateless, inputs_of, kept_keys
from mixedmode.config import (
    JobParts,
    JobSpec,
    KeyedStep,
    MapStep,
    ProcessStep,
    SqlStep,
)
from mixedmode.config.calls import quoted
from mixedmode.config.modes import resolve_mode
from mixedmode.config.steps import Step
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.keys import KeySchema
from mixedmode.operators.aggregate import UpsertOperator
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog
from mixedmode.operators.window import WINDOW_BOUNDS
from mixedmode.plan.explain_steps import goes_by_time
from mixedmode.plan.fingerprint import step_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream, with_changelogs
from mixedmode.plan.stages import (
    EmittedRows,
    JobPlan,
    KeyedStage,
    MapStage,
    ReadColumn,
    SourceRows,
    SqlText,
)
from mixedmode.sources.dead_letters import HasDeadLetters
from mixedmode.sources.source import Admission, OpenSource
from mixedmode.spark.errors import refused
from mixedmode.spark.frames import arrow_fields, stand_in, views
from mixedmode.spark.session import check_session, cores
from mixedmode.time import Strategy

PREVIOUS = "previous"  # the name by which a sql step reads the output of the previous step


@dataclass(frozen=True, slots=True)
class Analysis:
    """A plan, and the opened sources by name."""

    plan: JobPlan
    sources: Mapping[str, OpenSource]


def analyse(session: SparkSession, spec: JobSpec, where: Where) -> Analysis:
    """Return the plan of a job, and its opened sources.

    Raise InvalidJobError with every mistake, its place and Spark's message, without those that may only follow from
    another one.
    """
    found: list[MixedmodeError] = []
    analysis = examine(session, JobParts.whole(spec), where, found)
    raise_all(found)
    assert analysis is not None, spec.name
    return analysis


def examine(session: SparkSession, parts: JobParts, where: Where, found: list[MixedmodeError]) -> Analysis | None:
    """Return the analysis of a job; None if a part is wrong. Append to `found` the mistakes that Spark finds."""
    spec = parts.spec
    check_session(session, spec.spark)
    sources = OpenSources(session, parts, where)
    of_job = [*sources.found]
    with collecting(of_job):
        register_functions(session, spec.functions, where)
    chain = _Chain(session, parts, sources, where, of_job)
    chain.walk()
    analysis = None
    is_whole = not of_job and not parts.unknown and not parts.untimed and None not in parts.steps
    if is_whole:
        with collecting(of_job):
            analysis = Analysis(chain.plan(), sources.opened)
    found += of_job
    return analysis


class _Chain:
    """Walks the steps. Between two steps it holds a streaming stand-in of the previous step's output."""

    def __init__(
        self, session: SparkSession, parts: JobParts, sources: OpenSources, where: Where, found: list[MixedmodeError]
    ) -> None:
        self._session = session
        self._spec = parts.spec
        self._steps, self._partial = parts.steps, parts.partial
        self._where = where
        self._found = found
        self._event_times = sources.event_times
        self._partitions = sources.partitions
        self._unknown = sources.unknown
        self._is_time_in_doubt = bool(sources.untimed)
        self._sources = {name: source.stream(Admission()) for name, source in sources.opened.items()}
        #: whether the input of the next step is known; if not, `_current` means nothing
        self._is_known = bool(self._sources) and (isinstance(self._steps[0], SqlStep) or not self._unknown)
        self._current = self._keyed_rows = next(iter(self._sources.values()), session.range(0))
        self._dead_letters = {
            name: source.dead_letter_fields
            for name, source in sources.opened.items()
            if isinstance(source, HasDeadLetters) and source.dead_letter_fields
        }
        self._names = self._sources_read = tuple(self._sources)
        self._sql: list[SqlText] = []
        self._maps: list[MapStage] = []
        self._stages: list[KeyedStage] = []
        self._keyed_before = 0  # keyed steps, also those that are wrong
        self._emitted: EmittedRows | None = None  # what the last keyed step emits
        self._first_input: DataFrame | None = None  # the input of the first map or keyed step

    def walk(self) -> None:
        """Analyse the steps as far as their input is known; check the others by themselves."""
        before = len(self._found)
        for index, step in enumerate(self._steps):
            if step is None:
                self._is_known = False
            elif not self._is_known or (index == 0 and self._reads_unknown(step)):
                self._is_known = False
                check_alone(self._session, step, partial(self._where, "steps", index), self._found)
            else:
                self._is_known = False
                with collecting(self._found):
                    self._add(index, step)
                if not self._is_known and isinstance(step, MapStep | ProcessStep):
                    self._assume(step)
                self._is_known = self._is_known and index not in self._partial
                self._names = (PREVIOUS,) if step.name is None else (PREVIOUS, step.name)
            self._keyed_before += isinstance(step, KeyedStep)
        if len(self._found) == before and None not in self._steps and not self._partial:
            with collecting(self._found):
                self._add_upsert()

    def _add(self, index: int, step: Step) -> None:
        if isinstance(step, SqlStep):
            self._add_sql(index, step)
        elif isinstance(step, MapStep):
            self._add_map(index, step)
        else:
            self._add_keyed(index, step)

    def _assume(self, step: MapStep | ProcessStep) -> None:
        """Go on with the declared output of a step that is wrong otherwise."""
        with suppress(InvalidJobError):
            self._emit(declared_fields(step.output, ""))
            if isinstance(step, ProcessStep):
                self._emitted = EmittedRows(Changelog.APPEND, step.event_time)

    def _emit(self, fields: Sequence[pa.Field]) -> None:
        """Let these columns be the input of the next step."""
        self._sql = []
        self._current = self._keyed_rows = stand_in(self._session, fields)
        self._is_known = True

    def _reads_unknown(self, step: Step) -> bool:
        """Return whether the first step may read a source that is wrong: its SQL has the name of one."""
        return isinstance(step, SqlStep) and any(
            re.search(rf"\b{re.escape(name)}\b", step.sql, re.IGNORECASE) for name in self._unknown
        )

    def plan(self) -> JobPlan:
        """Return the plan of all steps, after `walk` has found no mistake."""
        strategies, source_rows = self._watermarks()
        return JobPlan(
            sql=tuple(self._sql),
            stages=with_changelogs(self._stages),
            output_fields=self._output_fields(),
            key_columns=() if self._sql else self._key_columns(),  # rows after sql are only added
            reads=self._reads(),
            sources_read=self._sources_read,
            event_times=self._event_times,
            strategies=strategies,
            side_sinks=side_sinks(self._spec, self._stages),
            maps=tuple(self._maps),
            dead_letters=self._dead_letters,
            source_rows=source_rows,
            partitions={name: column for name, column in self._partitions.items() if name in strategies},
        )

    def _output_fields(self) -> tuple[pa.Field, ...]:
        if self._stages and not self._sql:
            return self._stages[-1].operator.output_fields
        return tuple(arrow_fields(self._current.schema))

    def _watermarks(self) -> tuple[dict[str, Strategy], SourceRows | None]:
        """Return the watermark strategy of each source, and the rows with its event times (see JobPlan.source_rows).

        If no step depends on the watermark, there are no strategies, and no source is read a second time.
        """
        declared = [name for name in self._sources_read if name in self._event_times]
        rows = self._source_rows()
        if not self._stages or not declared or (rows is None and not self._goes_by_watermark()):
            return {}, SourceRows()
        return {name: strategy_of(self._spec.sources[name]) for name in declared}, rows

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
        if len(self._sources) > 1 or self._maps or not self._stages or self._partitions:
            return ()
        source, frame = next(iter(self._spec.sources.values())), next(iter(self._sources.values()))
        return columns_to_read(source, frame.schema, self._stages[0])

    def _add_sql(self, index: int, step: SqlStep) -> None:
        where = self._where("steps", index, "sql")
        text = SqlText(step.sql, self._names)
        inputs = self._sources if index == 0 else dict.fromkeys(self._names, self._current)
        try:
            with views(self._session, inputs):
                plan = check_query(read_query(self._session, step.sql, inputs=inputs), where=where)
                result = self._session.sql(step.sql)
        except PySparkException as error:
            raise refused(where, error, readable=tuple(inputs)) from error
        with collecting(self._found):
            self._check_plan(plan, step, where)
        if index == 0:
            self._sources_read = tuple(name for name in self._sources if name.lower() in inputs_of(plan))
        _check_columns(result, where)
        self._current = result
        self._sql.append(text)
        self._is_known = True

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
        self._emit(stage.operator.output_fields)
        _check_columns(self._current, self._where("steps", index, "output"))

    def _add_keyed(self, index: int, step: KeyedStep) -> None:
        if self._first_input is None:
            self._first_input = self._current
        where = partial(self._where, "steps", index)
        self._current, sql = with_computed_keys(
            self._current, step, self._names[0], where, is_changelog=self._is_changelog
        )
        if sql is not None:
            self._sql.append(SqlText(sql, self._names))
        given = StepInput(self._current, self._upstream())
        self._append(keyed_stage(step, given, where))

    @property
    def _is_changelog(self) -> bool:
        return self._emitted is not None and self._emitted.changelog is Changelog.RETRACT

    def _upstream(self) -> Upstream:
        """Return the position of the next keyed step."""
        before = self._emitted
        if before is None:
            event_time = find_event_time(self._current, self._event_times)
            if event_time is None and self._is_time_in_doubt:
                event_time = self._current.columns[0]  # no mistake may follow from that of the event time
            return Upstream(tuple(self._sql), self._keyed_before, event_time)
        return Upstream.downstream_of(
            before,
            tuple(self._sql),
            self._keyed_before,
            event_time=None if before.event_time is None else find_event_time(self._current, {"": before.event_time}),
            keeps_bounds=before.has_final_windows and self._keeps_bounds(),
        )

    def _keeps_bounds(self) -> bool:
        """Return whether the sql after the last keyed step has left the bounds of its windows as they were."""
        before, after = column_ids(self._keyed_rows), column_ids(self._current)
        is_union = any(node.kind == "Union" for node in nodes_of(read_frame(self._current, until=self._keyed_rows)))
        return not is_union and all(after.get(field.name) == before[field.name] for field in WINDOW_BOUNDS)

    def _key_columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._stages[-1].operator.output_key) if self._stages else ()

    def _add_upsert(self) -> None:
        """Add a stage that makes upserts, by the last keyed step's key, of the rows of the sql after that step.

        Rows that are only added need no key: if the sql drops or changes the key, they are written as they are.
        """
        key_columns = self._key_columns()
        if not self._sql or not key_columns:
            return
        last_sql = max(index for index, step in enumerate(self._spec.steps) if isinstance(step, SqlStep))
        where = self._where("steps", last_sql, "sql")
        plan = read_frame(self._current, until=self._keyed_rows)
        try:
            kept = kept_keys(plan, column_ids(self._keyed_rows), column_ids(self._current), key_columns, where=where)
        except InvalidJobError:
            if self._is_changelog:
                raise
            return
        fields = {field.name: field for field in arrow_fields(self._current.schema)}
        named = {name.lower(): name for name in fields}
        key_columns = tuple(named[name] for name in kept)
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
                is_changelog=self._is_changelog,
                operator=UpsertOperator(keys, tuple(rest)),
                identity=step_fingerprint("upsert"),
            )
        )

    def _check_plan(self, plan: Node, step: SqlStep, where: str) -> None:
        check_stateless(plan, where=where)
        check_repeatable(plan, where=where, is_keyed=self._is_changelog, allows_clock=step.clock == "allowed")

    def _append(self, stage: KeyedStage) -> None:
        self._stages.append(stage)
        self._emitted = stage.emitted
        self._emit([field for field in stage.emitted_fields if field.name != WEIGHT_COLUMN])


def _check_columns(frame: DataFrame, where: str) -> None:
    names = [name.lower() for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            msg = f"{where}: two columns have one name. Rename one of them with AS. column={name}"
            raise InvalidJobError(msg)
        if name.startswith("_"):
            msg = f"{where}: names that start with _ are kept for columns such as _op. Rename it with AS. column={name}"
            raise InvalidJobError(msg)
