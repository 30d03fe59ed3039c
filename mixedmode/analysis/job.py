"""Makes a plan of a job spec. Spark analyses SQL and types; a Spark job runs only to read a schema from files.

In every mode, each sql step is analysed over streaming stand-ins of its input. Its plan is checked, and SQL that could
return other rows live than in batch is refused.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.alone import check_alone
from mixedmode.analysis.broadcasts import analysed_broadcasts
from mixedmode.analysis.declared import declared_fields
from mixedmode.analysis.dimensions import empty_tables, mentions, unread_dimensions
from mixedmode.analysis.direct_reads import StageInputs, with_direct_reads
from mixedmode.analysis.event_times import watermarks
from mixedmode.analysis.file_parts import stand_ins
from mixedmode.analysis.function_steps import PairStep, analysed_function
from mixedmode.analysis.functions import register_functions, without_calls
from mixedmode.analysis.grouped_sql import GroupedSql
from mixedmode.analysis.having import output_rows, with_having
from mixedmode.analysis.inner_reads import with_inner_reads
from mixedmode.analysis.joins import analysed_join, selected_rows
from mixedmode.analysis.kept_times import check_kept_times
from mixedmode.analysis.keyed_stages import keyed_stage
from mixedmode.analysis.keyed_steps import StepInput, check_alike
from mixedmode.analysis.map_steps import MapInput, map_stage
from mixedmode.analysis.open_sources import OpenSources
from mixedmode.analysis.outputs import side_sinks
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.analysis.relations import Relation, Roots, check_columns
from mixedmode.analysis.results import has_key, result_of_rows, result_of_stage, with_key, with_upserts
from mixedmode.analysis.source_rows import records_read, schemas_beside_stages, sources_read
from mixedmode.analysis.sql_steps import SqlReads, by_their_names, reads_as_one, union_text, unread_inputs
from mixedmode.analysis.sql_texts import SqlTexts
from mixedmode.analysis.step_inputs import with_keys, within_range
from mixedmode.analysis.told_apart import check_told_apart
from mixedmode.analysis.written_sql import with_text
from mixedmode.config import JobParts, JobSpec, JoinStep, KeyedStep, MapStep, SqlStep
from mixedmode.config.graph import MAIN, PREVIOUS, Graph, Ref
from mixedmode.config.step_outputs import FunctionStep, broadcasts_of, function_section
from mixedmode.config.steps import Step, operator_id, sql_id
from mixedmode.config.two_inputs import TwoInputStep
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog
from mixedmode.plan.job_plan import JobPlan, ResultPlan, entry_of
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import with_changelogs
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import EmittedRows, KeyedStage, MapStage
from mixedmode.sources.dead_letters import HasDeadLetters
from mixedmode.sources.source import OpenSource
from mixedmode.sources.versions import HasVersions
from mixedmode.spark.frames import stand_in
from mixedmode.spark.known_settings import misspelt_settings
from mixedmode.spark.session import check_session, cores
from mixedmode.spark.settings import own_settings
from mixedmode.spark.sql_settings import sql_settings
from mixedmode.time.window_range import WindowRange


@dataclass(frozen=True, slots=True)
class Analysis:
    """A plan, and the opened sources and dimensions by name."""

    plan: JobPlan
    sources: Mapping[str, OpenSource]
    dimensions: Mapping[str, HasVersions] = field(default_factory=dict)


def analyse(session: SparkSession, spec: JobSpec, where: Where, *, within: WindowRange | None = None) -> Analysis:
    """Return the plan of a job, and its opened sources.

    within: windows of event time over records get only the records in this range of time.

    Raise InvalidJobError with every mistake, its place and Spark's message, without those that may only follow from
    another one.
    """
    found: list[MixedmodeError] = []
    analysis = examine(session, JobParts.whole(spec), where, found, within=within)
    raise_all(found)
    assert analysis is not None, spec.name
    return analysis


def examine(
    session: SparkSession,
    parts: JobParts,
    where: Where,
    found: list[MixedmodeError],
    *,
    within: WindowRange | None = None,
) -> Analysis | None:
    """Return the analysis of a job; None if a part is wrong. Append to `found` the mistakes that Spark finds.

    within: see `analyse`.
    """
    settings = own_settings(parts.spec)
    check_session(session, settings)
    of_functions: list[MixedmodeError] = []
    parts = without_calls(parts, register_functions(session, parts.spec.functions, where, of_functions))
    spec = parts.spec
    sources = OpenSources(session, parts, where)
    of_job = [*sources.found, *of_functions, *misspelt_settings(session, settings, where)]
    walk = _Walk(session, parts, sources, where, of_job, within)
    walk.walk()
    analysis = None
    if not of_job and parts.is_whole:
        with collecting(of_job):
            plan = walk.plan()
            check_told_apart(plan)
            raise_all(unread_dimensions(plan, spec.dimensions, where))
            analysis = Analysis(plan, sources.opened, sources.dimensions)
    found += of_job
    return analysis


class _Walk:
    """Walks the steps of a job. Each step whose inputs are known becomes a relation."""

    def __init__(
        self,
        session: SparkSession,
        parts: JobParts,
        sources: OpenSources,
        where: Where,
        found: list[MixedmodeError],
        within: WindowRange | None,
    ) -> None:
        self._session, self._within = session, within
        self._spec = parts.spec
        self._steps, self._partial = parts.steps, parts.partial
        self._where = where
        self._found = found
        self._event_times, self._time_zones = sources.event_times, sources.time_zones
        self._partitions = sources.partitions
        self._unknown, self._unknown_tables = sources.unknown, sources.unknown_dimensions
        self._sources, of_files = stand_ins(sources.opened, self._spec.sources)
        self._tables = empty_tables(session, sources.dimensions)
        outputs = {name: sink.from_ for name, sink in self._spec.results.items()}
        self._graph = Graph.of([*self._sources, *self._unknown], self._steps, outputs)
        self._relations: dict[Ref, Relation] = {
            ("sources", name): Relation(name, frame, sources=(name,)) for name, frame in self._sources.items()
        }
        self._dead_letters = {
            name: source.dead_letter_fields
            for name, source in sources.opened.items()
            if isinstance(source, HasDeadLetters) and source.dead_letter_fields
        }
        self._maps: list[MapStage] = []
        self._stages: list[KeyedStage] = []
        self._stage_of_step: dict[int, KeyedStage] = {}
        self._keyed_before = 0  # keyed steps, also those that are wrong
        self._roots = Roots(list(self._sources), self._event_times, is_time_in_doubt=bool(sources.untimed))
        self._results: dict[str, ResultPlan] = {}
        self._inputs = StageInputs(self._sources, of_files)
        self._first_input: DataFrame | None = None  # the input of the first map or keyed step

    def walk(self) -> None:
        """Analyse the steps as far as their input is known; check the others by themselves."""
        before = len(self._found)
        for index, step in enumerate(self._steps):
            inputs = None if step is None else self._inputs_of(index, step)
            if step is not None and inputs is None:
                check_alone(self._session, step, partial(self._where, "steps", index), self._found)
            elif step is not None and inputs is not None:
                with collecting(self._found):
                    self._add(index, step, inputs)
                if ("steps", index) not in self._relations and isinstance(step, MapStep | FunctionStep):
                    self._assume(index, step)
                if index in self._partial:
                    self._relations.pop(("steps", index), None)
            self._keyed_before += isinstance(step, KeyedStep)
        if len(self._found) == before and None not in self._steps and not self._partial:
            for name, ref in self._graph.outputs.items():
                if ref in self._relations:  # else a source upstream is wrong
                    with collecting(self._found):
                        self._add_result(name, ref)

    def _inputs_of(self, index: int, step: Step) -> list[Relation] | None:
        """Return what a step reads, None if some of it is unknown. The first sql step reads sources by their names."""
        refs = self._graph.inputs[index]
        by_name = index == 0 and not step.from_ and isinstance(step, SqlStep)
        unknown = self._unknown_tables | (self._unknown if by_name else set())
        if isinstance(step, SqlStep) and mentions(step.sql, unknown):
            return None
        found = [self._relations[ref] for ref in refs if ref in self._relations]
        is_whole = bool(found) if by_name else len(found) == len(refs) >= max(1, len(step.from_))
        return found if is_whole else None

    def _add(self, index: int, step: Step, inputs: Sequence[Relation]) -> None:
        if isinstance(step, SqlStep):
            self._add_sql(index, step, inputs)
        elif isinstance(step, MapStep):
            self._add_map(index, step, inputs[0])
        else:
            self._add_keyed(index, step, inputs)

    def _assume(self, index: int, step: MapStep | FunctionStep) -> None:
        """Go on with the declared output of a step that is wrong otherwise."""
        _, own = ((), step) if isinstance(step, MapStep) else function_section(step)
        with suppress(InvalidJobError):
            fields = declared_fields(own.output, "")
            name = operator_id(step, len(self._maps) if isinstance(step, MapStep) else self._keyed_before)
            if not isinstance(own, MapStep):
                self._roots.emitted[name] = EmittedRows(Changelog.APPEND, own.event_time)
            self._roots.upstream[name] = frozenset(self._sources)
            self._relations["steps", index] = self._emitted(name, fields, is_map=isinstance(step, MapStep))

    def _emitted(self, name: str, fields: Sequence[pa.Field], *, is_map: bool = False) -> Relation:
        """Return the rows of a stage with these columns."""
        frame = stand_in(self._session, fields)
        sources, stages = ((name,), ()) if is_map else ((), (name,))
        if not is_map:
            self._inputs.stages[name] = frame
        return Relation(name, frame, sources=sources, stages=stages, root=frame)

    def plan(self) -> JobPlan:
        """Return the plan of all steps, after `walk` has found no mistake."""
        readers: list[MapStage | KeyedStage | ResultPlan] = [*self._maps, *self._stages, *self._results.values()]
        settings = sql_settings(self._session) if any(stage.computes_again for stage in self._stages) else {}
        plan = JobPlan(
            stages=tuple(replace(stage, sql_settings=settings) for stage in self._stages),
            results=self._results,
            event_times=self._event_times,
            time_zones=self._time_zones,
            sources_read=sources_read(self._sources, (one.reads for one in readers)),
            strategies={},
            side_sinks=side_sinks(self._spec, self._stage_of_step),
            maps=tuple(self._maps),
            dead_letters=self._dead_letters,
        )
        rows = records_read(plan, self._inputs, self._first_input, self._event_times, self._partitions)
        strategies, source_rows = watermarks(self._spec, plan, rows)
        plan = replace(
            plan,
            strategies=strategies,
            source_rows=source_rows,
            partitions={name: column for name, column in self._partitions.items() if name in strategies},
            source_schemas=schemas_beside_stages(plan, self._sources),
        )
        plan = with_direct_reads(plan, self._inputs)
        return with_changelogs(with_inner_reads(plan, self._inputs))

    def _add_sql(self, index: int, step: SqlStep, inputs: Sequence[Relation]) -> None:
        before = self._steps[index - 1] if index else None
        named = by_their_names(step, index, None if before is None else before.name, inputs)
        readable = SqlReads(named, self._tables)
        where = self._where("steps", index, "sql")
        add, join = partial(self._add_grouped, where), partial(self._add_joined, where)
        texts = SqlTexts(self._session, self._roots, add, join, where, self._found)
        read: Mapping[str, Relation] = {}
        if reads_as_one(step):
            union = with_text(step, union_text(step, inputs, self._where("steps", index, "from")))
            together, read = texts.rows(union, readable, f"{sql_id(step, index)}-inputs")
            readable = replace(readable, relations={PREVIOUS: together, **named})
        rows, used = texts.rows(step, readable, sql_id(step, index))
        used = {**read, **used}
        self._found += unread_inputs(step, inputs, used, self._where("steps", index, "from"))
        check_columns(rows.frame, where)
        self._relations["steps", index] = rows

    def _add_grouped(self, where: str, grouped: GroupedSql, given: Relation) -> Relation:
        """Add the stage of a GROUP BY, and return its rows.  given: the rows that the stage reads."""
        self._begin_with(given.frame)
        (given,) = within_range([given], grouped.step, self._roots, self._within)
        upstream = self._roots.upstream_of([given], self._keyed_before)
        grouped.check_time(upstream.event_time, where, is_of_results=bool(upstream.reads.stages))
        stage = keyed_stage(grouped.step, StepInput([given], upstream.of_step(grouped.step)), lambda *_: where)
        self._inputs.relations[stage.operator_id] = [given]
        self._append(stage, where)
        return self._rows_of(stage)

    def _add_joined(self, where: str, step: JoinStep, given: tuple[Relation, Relation]) -> Relation:
        """Add the stage of a join in SQL, and return its rows.  given: the rows of its sides."""
        self._begin_with(given[0].frame)
        upstream, times = self._roots.upstream_of_pair(given, self._keyed_before)
        stage, _ = analysed_join(self._session, step, given, times, upstream, lambda *_: where)
        self._inputs.relations[stage.operator_id] = [*given]
        self._append(stage, where)
        return self._rows_of(stage)

    def _add_map(self, index: int, step: MapStep, given: Relation) -> None:
        self._begin_with(given.frame)
        reads = self._roots.reads([given])
        if reads.stages:
            msg = f"{self._where('steps', index, 'map')} must come before the first GROUP BY. Move it, or use sql."
            raise InvalidJobError(msg)
        of_step = MapInput(
            frame=given.frame,
            reads=reads,
            maps_before=len(self._maps),
            parallelism=step.parallelism
            or self._spec.parallelism
            or min(cores(self._session), self._spec.pipeline.max_parallelism),
        )
        stage = map_stage(step, of_step, self._spec, partial(self._where, "steps", index))
        self._maps.append(stage)
        self._roots.upstream[stage.operator_id] = reads.upstream
        rows = self._emitted(stage.operator_id, stage.operator.output_fields, is_map=True)
        self._relations["steps", index] = rows
        check_columns(rows.frame, self._where("steps", index, "output"))

    def _add_keyed(self, index: int, step: KeyedStep, inputs: Sequence[Relation]) -> None:
        self._begin_with(inputs[0].frame)
        where = partial(self._where, "steps", index)
        casts = len(broadcasts_of(step))
        inputs, others = inputs[: len(inputs) - casts], inputs[len(inputs) - casts :]
        if isinstance(step, TwoInputStep):
            self._add_pair(index, step, inputs, others, where)
            return
        for other in inputs[1:]:
            check_alike(inputs[0].types, other.types, (inputs[0].name, other.name), where("from"))
        is_changelog = bool(self._roots.reads(inputs).changelogs)
        inputs = [with_keys(one, step, self._keyed_before, where, is_changelog=is_changelog) for one in inputs]
        inputs = within_range(inputs, step, self._roots, self._within)
        upstream = self._roots.upstream_of(inputs, self._keyed_before)
        given = StepInput(inputs, upstream.of_step(step))
        self._append_step(index, keyed_stage(step, given, where), inputs, others, where)
        self._relations["steps", index] = with_having(self._relations["steps", index], step, where)

    def _add_pair(
        self, index: int, step: PairStep, inputs: Sequence[Relation], others: Sequence[Relation], where: Where
    ) -> None:
        """Add the stage of a step with two inputs, and the sql of the `select` of a join, if it has expressions."""
        given = (inputs[0], inputs[-1])  # a step over a relation and itself reads it twice
        upstream, times = self._roots.upstream_of_pair(given, self._keyed_before)
        selected = None
        if isinstance(step, JoinStep):
            stage, selected = analysed_join(self._session, step, given, times, upstream, where)
        else:
            stage = analysed_function(self._session, step, given, times, upstream, where)
        self._append_step(index, stage, given, others, where)
        if selected is not None and selected.sql is not None:
            rows = self._relations["steps", index]
            self._relations["steps", index] = selected_rows(self._session, rows, selected.sql, where("join", "select"))

    def _append_step(
        self, index: int, stage: KeyedStage, mains: Sequence[Relation], others: Sequence[Relation], where: Where
    ) -> None:
        """Add the stage of a step.  mains: the relations that it reads; others: its broadcast inputs."""
        step = self._steps[index]
        if others and isinstance(step, FunctionStep):
            of_one = partial(self._roots.upstream_of, keyed_before=0)
            stage = analysed_broadcasts(step, stage, mains, others, of_one, where)
        self._inputs.relations[stage.operator_id] = [*mains, *others]
        self._stage_of_step[index] = stage
        self._append(stage, where())
        self._relations["steps", index] = self._rows_of(stage)

    def _add_result(self, name: str, ref: Ref) -> None:
        """Add an output of whole rows.

        Rows of a keyed step that change are made upserts by its key, also after sql, by one more stage. Rows that are
        only added need no key: if sql drops or changes the key, they are written as they are.
        """
        given, key = self._relations[ref], self._spec.results[name].key
        stages = {stage.operator_id: stage for stage in self._stages}
        where = self._where("sink") if name == MAIN else self._where("outputs", name, "from")
        if given.name in stages and has_key(stages[given.name], key):
            self._results[name] = result_of_stage(stages[given.name], self._roots.reads([given]), where)
            return
        given = output_rows(given, self._stage_of_step.get(int(ref[1])) if ref[0] == "steps" else None)
        reads = self._roots.reads([given])
        stage = stages[reads.stages[0]] if reads.stages else None
        upsert = None
        if key:
            place = self._where(*(("outputs", name) if name else ("sink",)), "key")
            upsert = with_key(name, given, reads, stage, key, place)
        elif stage is not None:
            upsert = with_upserts(name, given, reads, stage, self._where("steps", ref[1], "sql"))
        if upsert is None:
            self._results[name] = result_of_rows(given, reads, where)
            self._inputs.relations[entry_of(name)] = [given]
            return
        self._inputs.relations[upsert.operator_id] = [given]
        self._append(upsert, where)
        own = Reads((upsert.operator_id,), stages=(upsert.operator_id,), upstream=reads.upstream)
        self._results[name] = result_of_stage(upsert, own, where, given.frame.columns)

    def _begin_with(self, frame: DataFrame) -> None:
        """Note the input of a map or keyed step, if it is the first one."""
        if self._first_input is None:
            self._first_input = frame

    def _append(self, stage: KeyedStage, where: str) -> None:
        check_kept_times(stage, self._inputs, self._roots, where)
        self._stages.append(stage)
        self._roots.emitted[stage.operator_id] = stage.emitted
        self._roots.upstream[stage.operator_id] = stage.reads.upstream

    def _rows_of(self, stage: KeyedStage) -> Relation:
        """Return the rows of a stage for later steps."""
        fields = [field for field in stage.emitted_fields if field.name != WEIGHT_COLUMN]
        return replace(self._emitted(stage.operator_id, fields), root_keys=stage.row_keys)
