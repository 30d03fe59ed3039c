"""The plan of a job without Spark, for jobs of keyed steps whose arguments and keys are columns.

In a job, Spark supplies the types of columns; here the declared schema of the source does. The stages are made by the
functions that the analysis of a job calls, and wrong columns are refused in the same places.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from mixedmode.analysis.event_times import strategy_of
from mixedmode.analysis.keyed_steps import checked_key, names_taken, rank_taken, rows_change
from mixedmode.analysis.outputs import side_sinks
from mixedmode.analysis.problems import raise_all
from mixedmode.config import DeduplicateStep, JobSpec, KeyedAggregateStep, KeyedStep, ProcessStep
from mixedmode.config.calls import column_in, quoted
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import MapStep, Step, TopStep
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import WEIGHT_COLUMN
from mixedmode.operators.process import FunctionReference, state_schema_of
from mixedmode.plan.keyed_operators import StepColumns, Where, aggregate_operator, expressions_of, no_event_time
from mixedmode.plan.keyed_stages import Upstream, aggregate_stage, process_stage, ranked_stage, with_changelogs
from mixedmode.plan.ranked_operators import RankedColumns, orders_of
from mixedmode.plan.stages import JobPlan, KeyedStage, SourceRows
from mixedmode.testing.functions import declared_output
from mixedmode.testing.schemas import schema_of
from mixedmode.testing.step import check_event_time

__all__ = ["local_plan", "parts_for_spark"]


def parts_for_spark(steps: Sequence[Step]) -> list[tuple[tuple[str | int, ...], str]]:
    """Return (place, what it is) of the parts of a job that only Spark can run."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for index, step in enumerate(steps):
        here = ("steps", index)
        if isinstance(step, KeyedStep):
            found += [((*here, *path), f"the expression {text}") for path, text in _expressions(step)]
        else:
            found.append((here, "a map step" if isinstance(step, MapStep) else "an sql step"))
    return found


def _expressions(step: KeyedStep) -> Iterator[tuple[tuple[str, ...], str]]:
    for text in step.key_expressions.values():
        yield ("key-by",), text
    if isinstance(step, KeyedAggregateStep):
        for name, call in step.aggregate.items():
            yield from ((("aggregate", name), text) for text in call.expressions if column_in(text) is None)
    if isinstance(step, TopStep):
        texts = [by.expression for by in step.top.order_by]
        yield from ((("top", "order-by"), text) for text in texts if column_in(text) is None)


def local_plan(spec: JobSpec, where: Where) -> JobPlan:
    """Return the plan of a job of keyed steps over one source of files, which declares its schema.

    where: names a place in the job. Raise InvalidJobError for a wrong column, type or function, with its place.
    """
    ((name, source),) = spec.sources.items()
    assert isinstance(source, FileSourceSpec), name
    assert source.schema_ddl is not None, name
    columns = _Columns(schema_of(source.schema_ddl, where=where("sources", name, "schema")))
    event_time = None
    if source.event_time is not None:
        place = where("sources", name, "event-time")
        event_time = columns.field(source.event_time, place).name
        check_event_time(pa.schema(columns.fields), event_time, where=place)
    partition = source.watermark.partition_column
    if partition is not None:
        partition = columns.field(partition, where("sources", name, "watermark", "partition-column")).name
    found: list[KeyedStage] = []
    for index, step in enumerate(spec.steps):
        assert isinstance(step, KeyedStep), step
        upstream = Upstream((), 0, event_time)
        if found:
            emitted = found[-1].emitted
            upstream = Upstream.downstream_of(emitted, (), len(found), event_time=emitted.event_time)
        found.append(_stage(step, columns, upstream, partial(where, "steps", index)))
        columns = _Columns([field for field in found[-1].emitted_fields if field.name != WEIGHT_COLUMN])
    last = found[-1].operator
    return JobPlan(
        sql=(),
        stages=with_changelogs(found),
        output_fields=tuple(last.output_fields),
        key_columns=tuple(field.name for field in last.output_key),
        reads=(),
        event_times={} if event_time is None else {name: event_time},
        sources_read=(name,),
        strategies={} if event_time is None else {name: strategy_of(source)},
        side_sinks=side_sinks(spec, found),
        source_rows=SourceRows(),
        partitions={} if partition is None else {name: partition},
    )


class _Columns:
    """The columns of a step's input, whose names may be spelled in any case."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self._by_name = {field.name.lower(): field for field in self.fields}

    def field(self, name: str, where: str) -> pa.Field:
        """Return a column. Raise InvalidJobError, beginning with `where`, if there is no such column."""
        if name.lower() not in self._by_name:
            known = [field.name for field in self.fields]
            msg = f"{where}: there is no column {name}.{did_you_mean(name, known)} Columns here: {', '.join(known)}."
            raise InvalidJobError(msg)
        return self._by_name[name.lower()]

    def type_of(self, text: str, where: str) -> pa.DataType:
        """Return the type of an expression that is a column."""
        return self.field(column_in(text) or text, where).type

    def keys(self, names: Sequence[str], where: str) -> tuple[pa.Field, ...]:
        """Return the key columns, as they are spelled in the step. Raise InvalidJobError for an unsuitable one."""
        return tuple(checked_key(pa.field(name, self.field(name, where).type), where) for name in names)

    def quoted(self, *, without: Sequence[str] = ()) -> dict[str, pa.Field]:
        """Return {expression: column} of all columns but those of these names."""
        left_out = {name.lower() for name in without}
        return {quoted(field.name): field for field in self.fields if field.name.lower() not in left_out}


def _stage(step: KeyedStep, columns: _Columns, upstream: Upstream, where: Where) -> KeyedStage:
    keys = columns.keys(step.key_columns, where("key-by")) if step.key_columns else ()
    if isinstance(step, KeyedAggregateStep):
        return _aggregate(step, columns, upstream, keys, where)
    if isinstance(step, ProcessStep):
        return _process(step, columns, upstream, keys, where)
    if upstream.is_changelog and isinstance(step, DeduplicateStep) and step.is_append_only:
        raise rows_change(where("deduplicate"))
    place = where("top", "order-by") if isinstance(step, TopStep) else where("deduplicate", "tie-break")
    order = []
    for by in orders_of(step, upstream.event_time):
        field = columns.field(column_in(by.expression) or by.expression, place)
        order.append((quoted(field.name), field.type))
    row = columns.quoted(without=step.key_columns)
    raise_all([error for field in row.values() for error in rank_taken(step, field.name, where)])
    return ranked_stage(step, upstream, RankedColumns(keys, row, order), where)


def _aggregate(
    step: KeyedAggregateStep, columns: _Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    has_time = upstream.event_time is not None
    if step.window is not None and upstream.is_changelog:
        raise rows_change(where("window"))
    if step.window is not None and not has_time:
        raise InvalidJobError(no_event_time(where("window"), is_first=upstream.keyed_before == 0))
    places: Mapping[str, str] = {text: name for name, call in step.aggregate.items() for text in call.expressions}
    arguments = {text: columns.type_of(text, where("aggregate", places[text])) for text in expressions_of(step)}
    read = StepColumns(keys, arguments, has_time, upstream.is_changelog, upstream.final_windows)
    if read.is_window_keyed and step.window is None:
        raise_all(names_taken(step, where))
    late_fields = () if step.late is None else columns.fields
    return aggregate_stage(step, upstream, read, aggregate_operator(step, read, where), late_fields=late_fields)


def _process(
    step: ProcessStep, columns: _Columns, upstream: Upstream, keys: tuple[pa.Field, ...], where: Where
) -> KeyedStage:
    if upstream.is_changelog:
        raise rows_change(where("process"))
    output = declared_output(step.output, where("output"))
    if step.event_time is not None:
        place = where("event-time")
        check_event_time(pa.schema(output), _Columns(output).field(step.event_time, place).name, where=place)
    try:
        state_schema_of(FunctionReference.parse(step.process, step.args, step.folder))
    except InvalidJobError as error:
        msg = f"{where('process')}: {error}"
        raise InvalidJobError(msg) from error
    return process_stage(
        step,
        upstream,
        keys=keys,
        arguments=columns.quoted(),
        output_fields=output,
        function_outputs={
            tag: declared_output(side.schema_ddl, where("outputs", tag, "schema")) for tag, side in step.outputs.items()
        },
    )
