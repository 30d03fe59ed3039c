"""The plan of a job without Spark, as runtime.analysis makes it: of keyed steps only, whose arguments are columns."""

from collections.abc import Mapping

import pyarrow as pa

from mixedmode.analysis.job import Analysis
from mixedmode.config import FileSourceSpec, JobSpec, KeyedAggregateStep, ProcessStep
from mixedmode.keys import KeySchema
from mixedmode.operators.process import FunctionReference, ProcessOperator
from mixedmode.plan.fingerprint import aggregate_fingerprint, step_fingerprint
from mixedmode.plan.keyed_operators import StepColumns, Where, aggregate_operator, expressions_of
from mixedmode.plan.stages import JobPlan, KeyedStage
from mixedmode.testing.schemas import schema_of
from mixedmode.time import Strategy


def local_analysis(_session: object, spec: JobSpec, where: Where) -> Analysis:
    """As runtime.analysis.analyse."""
    ((name, source),) = spec.sources.items()
    assert isinstance(source, FileSourceSpec), name
    assert source.schema_ddl is not None, name
    fields = {field.name: field for field in schema_of(source.schema_ddl, where="schema")}
    found: list[KeyedStage] = []
    for step in spec.steps:
        event_time = None if found else source.event_time
        found.append(_stage(step, fields, event_time, len(found), where))
        fields = {field.name: field for field in found[-1].operator.output_fields}
    last = found[-1].operator
    strategies = {name: Strategy(1000 * source.watermark.out_of_orderness_ms, None, None)}
    plan = JobPlan(
        sql=(),
        stages=(*(stage.with_retractions() for stage in found[:-1]), found[-1]),
        output_fields=tuple(last.output_fields),
        key_columns=tuple(field.name for field in last.output_key),
        reads=(),
        event_times={name: str(source.event_time)},
        sources_read=(name,),
        strategies=strategies,
        side_sinks={},
    )
    return Analysis(plan, {})


def _stage(
    step: object, fields: Mapping[str, pa.Field], event_time: str | None, keyed_before: int, where: Where
) -> KeyedStage:
    if isinstance(step, ProcessStep):
        return _process_stage(step, fields, event_time)
    assert isinstance(step, KeyedAggregateStep), step
    columns = StepColumns(
        keys=tuple(fields[name] for name in step.key_by),
        arguments={text: fields[text].type for text in expressions_of(step)},
        has_event_time=event_time is not None,
        is_changelog=keyed_before > 0,
    )
    operator = aggregate_operator(step, columns, where)
    return KeyedStage(
        operator_id=f"aggregate-{keyed_before + 1}",
        sql=(),
        key_fields=columns.keys,
        arguments=tuple(columns.arguments),
        argument_types=tuple(columns.arguments.values()),
        event_time=event_time,
        is_changelog=keyed_before > 0,
        operator=operator,
        identity=aggregate_fingerprint(step, columns.keys, columns.arguments, operator),
    )


def _process_stage(step: ProcessStep, fields: Mapping[str, pa.Field], event_time: str | None) -> KeyedStage:
    keys = tuple(fields[name] for name in step.key_by)
    operator = ProcessOperator(
        operator_id="process-1",
        function=FunctionReference.parse(step.process, step.args, step.folder),
        key_schema=KeySchema(keys),
        record_fields=tuple(fields.values()),
        output_fields=tuple(schema_of(step.output, where="output")),
        function_outputs={},
        on_error=step.on_error,
        has_event_time=event_time is not None,
    )
    return KeyedStage(
        operator_id="process-1",
        sql=(),
        key_fields=keys,
        arguments=tuple(fields),
        argument_types=tuple(field.type for field in fields.values()),
        event_time=event_time,
        is_changelog=False,
        operator=operator,
        identity=step_fingerprint("process", keys),
    )
