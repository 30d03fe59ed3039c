"""The plan of a job without Spark, for jobs of keyed steps whose arguments and keys are columns.

In a job, Spark supplies the types of columns; here the declared schema of the source does. The stages are made by the
functions that the analysis of a job calls, and wrong columns are refused in the same places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from mixedmode.analysis.event_times import strategy_of
from mixedmode.analysis.keyed_steps import check_alike, rows_change
from mixedmode.analysis.outputs import side_sinks
from mixedmode.analysis.problems import raise_all
from mixedmode.analysis.results import has_key, result_of_stage
from mixedmode.config import CoGroupStep, CoProcessStep, JobSpec, JoinStep, KeyedAggregateStep, KeyedStep
from mixedmode.config.apply_changes import ApplyChangesStep
from mixedmode.config.calls import column_in
from mixedmode.config.graph import MAIN, Ref
from mixedmode.config.step_outputs import FunctionStep, broadcasts_of
from mixedmode.config.steps import TopStep
from mixedmode.config.two_inputs import TwoInputStep
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.expressions import Query
from mixedmode.job import Job
from mixedmode.operators.interface import WEIGHT_COLUMN, Changelog
from mixedmode.plan.function_steps import co_process_stage, untimed_inputs
from mixedmode.plan.job_plan import JobPlan, SourceRows
from mixedmode.plan.join_operators import JoinedInput, join_problems, pair_condition
from mixedmode.plan.joins import equal_fields, join_stage, selection
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.keyed_stages import Upstream, upsert_stage, with_changelogs
from mixedmode.plan.reads import Reads
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stages import ALL_ROWS, KeyedStage
from mixedmode.testing.local_functions import local_broadcasts, local_co_group
from mixedmode.testing.local_stages import Columns, declared_rows, join_key, stage_of
from mixedmode.testing.schemas import schema_of
from mixedmode.testing.step import check_event_time

__all__ = ["NO_CONDITIONS", "local_plan", "needs_spark"]

_ZONE = "spark.sql.session.timeZone"  # of dates and local times that are event times

NO_CONDITIONS: Mapping[str, Query] = {}


def needs_spark(job: Job) -> bool:
    """Return whether a job has a part that only Spark can run: SQL, a map step, or dates in another zone than UTC."""
    if job.settings.spark.get(_ZONE, "UTC") != "UTC":
        return True
    computes = any(source.computed_columns for source in job.settings.sources.values())
    reads_source = any(sink.from_ in job.settings.sources for sink in job.results.values())
    return computes or reads_source or any(not isinstance(step, KeyedStep) or _has_sql(step) for step in job.steps)


def _has_sql(step: KeyedStep) -> bool:
    """Return whether a step computes more than columns of its input."""
    if isinstance(step, CoProcessStep | CoGroupStep):
        return False
    if isinstance(step, JoinStep):
        return step.join.condition is not None or any(item.expression is not None for item in step.join.selected)
    texts = []
    if isinstance(step, KeyedAggregateStep):
        texts = [text for call in step.aggregate.values() for text in call.expressions]
        if step.having is not None:
            return True
    if isinstance(step, TopStep):
        texts = [by.expression for by in step.top.order_by]
    if isinstance(step, ApplyChangesStep):
        texts = [text for _, text in step.apply_changes.expressions]
    return bool(step.key_expressions) or any(column_in(text) is None for text in texts)


def local_plan(spec: JobSpec, where: Where, conditions: Mapping[str, Query] = NO_CONDITIONS) -> JobPlan:
    """Return the plan of a job of keyed steps over sources of files, which declare their schemas.

    where: names a place in the job. conditions: {condition of a join: what Spark's analysis makes of it}. Raise
    InvalidJobError for a wrong column, type or function, with its place.
    """
    walk = _Walk(spec, where, conditions)
    for index, step in enumerate(spec.steps):
        assert isinstance(step, KeyedStep), step
        walk.add(index, step)
    return walk.plan()


class _Walk:
    """Walks the steps of a job. `_columns`: of each source and each step so far."""

    def __init__(self, spec: JobSpec, where: Where, conditions: Mapping[str, Query]) -> None:
        self._spec = spec
        self._where = where
        self._conditions = conditions
        self._columns: dict[Ref, Columns] = {}
        self._names: dict[Ref, str] = {}
        self._event_times: dict[str, str] = {}
        self._partitions: dict[str, str] = {}
        self._stages: dict[int, KeyedStage] = {}
        self._upstream: dict[str, frozenset[str]] = {}
        for name, source in spec.sources.items():
            assert isinstance(source, FileSourceSpec), name
            assert not source.computed_columns, name
            self._add_source(name, source)

    def _add_source(self, name: str, source: FileSourceSpec) -> None:
        assert source.schema_ddl is not None, name
        where = partial(self._where, "sources", name)
        columns = Columns(schema_of(source.schema_ddl, where=where("schema")))
        self._columns["sources", name], self._names["sources", name] = columns, name
        self._upstream[name] = frozenset({name})
        if source.event_time is not None:
            self._event_times[name] = columns.field(source.event_time, where("event-time")).name
            check_event_time(pa.schema(columns.fields), self._event_times[name], where=where("event-time"))
        partition = source.watermark.partition_column
        if partition is not None:
            self._partitions[name] = columns.field(partition, where("watermark", "partition-column")).name

    def add(self, index: int, step: KeyedStep) -> None:
        """Add the stage of a step. Raise InvalidJobError for its mistakes."""
        refs = self._spec.graph.inputs[index]
        where = partial(self._where, "steps", index)
        casts = len(broadcasts_of(step))
        refs, others = refs[: len(refs) - casts], refs[len(refs) - casts :]
        if isinstance(step, TwoInputStep):
            self._append_step(index, self._pair(step, refs, where), (refs[0], refs[-1]), others, where)
            return
        columns = self._columns[refs[0]]
        for ref in refs[1:]:
            check_alike(
                columns.types, self._columns[ref].types, (self._names[refs[0]], self._names[ref]), where("from")
            )
        row_key = self._row_key(refs[0]) if len(refs) == 1 else None
        stage = stage_of(step, columns, self._upstream_of(refs, where).of_step(step), where, row_key)
        self._append_step(index, stage, refs, others, where)

    def _append_step(
        self, index: int, stage: KeyedStage, mains: Sequence[Ref], others: Sequence[Ref], where: Where
    ) -> None:
        """Add the stage of a step.  mains: what it reads; others: its broadcast inputs."""
        step = self._spec.steps[index]
        if others and isinstance(step, FunctionStep):
            given, records = [*map(self._input, others)], [*map(self._input, mains)]
            stage = local_broadcasts(step, stage, records, given, self._whole([*mains, *others]), where)
        self._append(index, stage)

    def _whole(self, refs: Sequence[Ref]) -> Upstream:
        reads = self._reads(refs)
        emitted = [self._stage_of(name).emitted for name in reads.stages]
        return Upstream.of(reads, emitted, len(self._stages), event_time=None)

    def _input(self, ref: Ref, alias: str = "") -> JoinedInput:
        time, name = self._upstream_of([ref], self._where).event_time, self._names[ref]
        return JoinedInput(alias or name, self._columns[ref].fields, time, (name,), self._row_key(ref))

    def _row_key(self, ref: Ref) -> RowKey:
        keys = self._stages[int(ref[1])].row_keys if ref[0] == "steps" else ()
        return min(keys, key=len, default=None)

    def _upstream_of(self, refs: Sequence[Ref], where: Where) -> Upstream:
        reads = self._reads(refs)
        emitted = [self._stage_of(name).emitted for name in reads.stages]
        times = {self._event_times.get(name) for name in reads.sources} | {one.event_time for one in emitted}
        lowered = {time.lower() for time in times if time is not None}
        event_time = None
        if None not in times and len(lowered) == 1:
            event_time = self._columns[refs[0]].field(min(lowered), where("from")).name
        return Upstream.of(reads, emitted, len(self._stages), event_time=event_time)

    def _pair(self, step: JoinStep | CoProcessStep | CoGroupStep, refs: Sequence[Ref], where: Where) -> KeyedStage:
        pair = (refs[0], refs[-1])  # a step over an input and itself reads it twice
        left, right = (self._input(ref, given.alias) for given, ref in zip(step.pair.inputs, pair, strict=True))
        reads, place = self._reads(pair), where(step.section, "on")
        if reads.changelogs and not (isinstance(step, JoinStep) and step.join.is_regular):
            raise rows_change(where(step.section), reads)
        keys = [join_key(a, b, place) for a, b in equal_fields(step.pair, (left, right), place)]
        upstream = self._whole(pair)
        if not isinstance(step, JoinStep):
            raise_all(untimed_inputs((left, right), where(step.section)))
            if isinstance(step, CoGroupStep):
                return local_co_group(step, upstream, (left, right), keys, where)
            output, outputs = declared_rows(step, where)
            return co_process_stage(step, upstream, (left, right), keys, output_fields=output, function_outputs=outputs)
        selected = selection(step, (left, right), where)
        text = step.join.condition
        if text is not None:
            condition = pair_condition(text, self._conditions[text], (left, right), where("join", "condition"))
            selected = replace(selected, condition=condition)
        raise_all(join_problems(step, (left, right), selected, where))
        return join_stage(step, upstream, (left, right), keys, selected, where)

    def _append(self, index: int, stage: KeyedStage) -> None:
        self._stages[index] = stage
        self._names["steps", index], self._upstream[stage.operator_id] = stage.operator_id, stage.reads.upstream
        self._columns["steps", index] = Columns([one for one in stage.emitted_fields if one.name != WEIGHT_COLUMN])

    def _stage_of(self, name: str) -> KeyedStage:
        return next(stage for stage in self._stages.values() if stage.operator_id == name)

    def _reads(self, refs: Sequence[Ref]) -> Reads:
        names = [self._names[ref] for ref in refs]
        roots = dict(zip(names, refs, strict=True))
        stages = tuple(name for name, ref in roots.items() if ref[0] == "steps")
        return Reads(
            relations=tuple(names),
            sources=tuple(name for name in roots if name not in stages),
            stages=stages,
            changelogs=frozenset(
                name for name in stages if self._stage_of(name).emitted.changelog is Changelog.RETRACT
            ),
            upstream=frozenset(source for name in names for source in self._upstream[name]),
        )

    def plan(self) -> JobPlan:
        """Return the plan of all steps."""
        upserts = {name: self._upserts(name, ref) for name, ref in self._spec.graph.outputs.items()}
        results = {}
        for name, ref in self._spec.graph.outputs.items():
            given, reads = self._stage_of(self._names[ref]), self._reads([ref])
            stage, columns = upserts[name] or given, [field.name for field in given.operator.output_fields]
            if upserts[name] is not None:
                reads = Reads((stage.operator_id,), stages=(stage.operator_id,), upstream=reads.upstream)
            where = self._where("sink") if name == MAIN else self._where("outputs", name, "from")
            results[name] = result_of_stage(stage, reads, where, columns)
        read = {name for stage in self._stages.values() for name in stage.reads.upstream}
        plan = JobPlan(
            stages=(*self._stages.values(), *(stage for stage in upserts.values() if stage is not None)),
            results=results,
            event_times=self._event_times,
            sources_read=tuple(name for name in self._spec.sources if name in read),
            strategies={name: strategy_of(self._spec.sources[name]) for name in self._event_times if name in read},
            side_sinks=side_sinks(self._spec, self._stages),
            partitions={name: column for name, column in self._partitions.items() if name in read},
        )
        is_plain = plan.has_one_entry and len(plan.sources_read) == 1 and len(plan.stages[0].reads.relations) == 1
        return with_changelogs(replace(plan, source_rows=SourceRows() if is_plain else None))

    def _upserts(self, name: str, ref: Ref) -> KeyedStage | None:
        """Return the stage that makes upserts by the key of an output; None if the rows are upserts by it already."""
        stage, key = self._stage_of(self._names[ref]), self._spec.results[name].key
        if has_key(stage, key):
            return None
        columns = self._columns[ref]
        columns.keys(key, self._where(*(("outputs", name) if name else ("sink",)), "key"))
        names = [columns.field(column, "").name for column in key or next(iter(stage.row_keys), ())]
        fields = [one for one in stage.operator.output_fields if one != ALL_ROWS]
        is_known = any(set(one) <= set(names) for one in stage.row_keys)
        return upsert_stage(name, self._reads([ref]), fields, names, is_checked=not is_known)
