"""The plan of a job without Spark: of keyed steps only, whose arguments are columns.

Spark supplies the types in a job; here the `schema` of the source does. Stages are made by the functions of a job.
"""

from collections.abc import Mapping

import pyarrow as pa

from mixedmode.analysis.event_times import strategy_of
from mixedmode.analysis.job import Analysis
from mixedmode.analysis.outputs import side_sinks
from mixedmode.config import FileSourceSpec, JobSpec, KeyedAggregateStep, KeyedStep, ProcessStep
from mixedmode.config.calls import column_in
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.operators.window import WINDOW_BOUNDS
from mixedmode.plan.keyed_operators import StepColumns, Where, aggregate_operator, expressions_of
from mixedmode.plan.keyed_stages import Upstream, aggregate_stage, process_stage, ranked_stage, with_changelogs
from mixedmode.plan.ranked_operators import RankedColumns, orders_of
from mixedmode.plan.stages import EmittedRows, JobPlan, KeyedStage
from mixedmode.testing.schemas import schema_of

Fields = Mapping[str, pa.Field]


def local_analysis(spec: JobSpec, where: Where) -> Analysis:
    """As mixedmode.analysis.job.analyse."""
    ((name, source),) = spec.sources.items()
    assert isinstance(source, FileSourceSpec), name
    assert source.schema_ddl is not None, name
    fields: Fields = {field.name: field for field in schema_of(source.schema_ddl, where="schema")}
    found: list[KeyedStage] = []
    for step in spec.steps:
        assert isinstance(step, KeyedStep), step
        upstream = _behind(found[-1].emitted, len(found)) if found else Upstream((), 0, source.event_time)
        found.append(_stage(step, fields, upstream, where))
        fields = {field.name: field for field in found[-1].emitted_fields if field.name != WEIGHT_COLUMN}
    last, event_time = found[-1].operator, source.event_time
    plan = JobPlan(
        sql=(),
        stages=with_changelogs(found),
        output_fields=tuple(last.output_fields),
        key_columns=tuple(field.name for field in last.output_key),
        reads=(),
        event_times={} if event_time is None else {name: event_time},
        sources_read=(name,),
        strategies={} if event_time is None else {name: strategy_of(source)},
        side_sinks=side_sinks(spec, found),
    )
    return Analysis(plan, {})


def _behind(emitted: EmittedRows, keyed_before: int) -> Upstream:
    bounds = tuple(field.name for field in WINDOW_BOUNDS) if emitted.has_final_windows else ()
    return Upstream((), keyed_before, emitted.event_time, emitted.changelog, emitted.delay_us, bounds)


def _stage(step: KeyedStep, fields: Fields, upstream: Upstream, where: Where) -> KeyedStage:
    keys = tuple(fields[name] for name in step.key_by)
    if isinstance(step, KeyedAggregateStep):
        arguments = {text: fields[column_in(text) or text].type for text in expressions_of(step)}
        columns = StepColumns(
            keys, arguments, upstream.event_time is not None, upstream.is_changelog, upstream.final_windows
        )
        late_fields = () if step.late is None else tuple(fields.values())
        operator = aggregate_operator(step, columns, where)
        return aggregate_stage(step, upstream, columns, operator, late_fields=late_fields)
    if not isinstance(step, ProcessStep):
        row = {name: field for name, field in fields.items() if name not in step.key_by}
        order = [(by.expression, fields[by.expression].type) for by in orders_of(step, upstream.event_time)]
        return ranked_stage(step, upstream, RankedColumns(keys, row, order), where)
    output = tuple(schema_of(step.output, where="output"))
    return process_stage(step, upstream, keys=keys, arguments=fields, output_fields=output, function_outputs={})
