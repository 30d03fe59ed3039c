"""Reads in Spark's analysed plan if each row of some SQL over a source is exactly one record of the source.

A plan that has only projections over the source's view drops no row and adds none. Spark gives each
column an id, and the column keeps the id as long as it is unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from mixedmode.analysis.catalyst import analysed
from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of, kind_of
from mixedmode.analysis.direct_reads import StageInputs
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import JobPlan, SourceRows
from mixedmode.plan.reads import Reads

__all__ = ["columns_of_source", "records_read", "schemas_beside_stages", "sources_read"]

_ALIASES = ("SubqueryAlias", "View")  # neither changes a row, nor the order of the columns


def sources_read(sources: Iterable[str], reads: Iterable[Reads]) -> tuple[str, ...]:
    """Return those of the sources whose records can reach a step or an output.  reads: of all of these."""
    found = {name for one in reads for name in one.upstream}
    return tuple(name for name in sources if name in found)


def schemas_beside_stages(plan: JobPlan, sources: Mapping[str, DataFrame]) -> dict[str, str]:
    """Return {source: its schema as JSON} of those that a step or an output reads together with a stage."""
    every = [*(stage.reads for stage in plan.stages), *(result.reads for result in plan.results.values())]
    return {name: sources[name].schema.json() for reads in every if reads.is_mixed for name in reads.sources}


def records_read(
    plan: JobPlan,
    inputs: StageInputs,
    first_input: DataFrame | None,
    event_times: Mapping[str, str],
    partitions: Mapping[str, str],
) -> SourceRows | None:
    """Return the columns of the first stage's input that show the progress of the sources (JobPlan.source_rows).

    None if its rows are no records. first_input: of the first map or keyed step. event_times, partitions: columns of
    the sources that have them.
    """
    if first_input is None or not plan.has_one_entry or joins_sources(plan):
        return None
    if plan.stages and plan.stages[0].sides and not plan.maps:
        relations = [one.frame for one in inputs.relations[plan.stages[0].operator_id]]
        return _rows_of_sides(plan, relations, inputs.sources, event_times, partitions)
    name = plan.sources_read[0]
    return _source_rows(plan, first_input, inputs.sources[name], event_times.get(name), partitions.get(name))


def _source_rows(
    plan: JobPlan, first_input: DataFrame, source: DataFrame, event_time: str | None, partition: str | None
) -> SourceRows | None:
    """Return the event-time and partition columns of the first step's input; None if its rows are no records.

    first_input: of a plan with one reader of sources. event_time, partition: columns of the source, if it has them.
    """
    if len(plan.sources_read) > 1 or event_time is None:
        return None
    if not plan.maps and len(plan.reader(next(iter(plan.entries)))[0].relations) > 1:
        return None  # a record may be several rows
    origins = columns_of_source(first_input, source)
    stage = None if plan.maps else plan.reader(next(iter(plan.entries)))[1]
    if origins is None or (stage and stage.event_time and origins.get(stage.event_time) != event_time):
        return None  # the step goes by another column than the watermark
    columns = {origin: name for name, origin in origins.items()}
    wanted = [event_time, *([] if partition is None else [partition])]
    if not columns.keys() >= set(wanted):
        return None
    return SourceRows(columns[event_time], None if partition is None else columns[partition])


def _rows_of_sides(
    plan: JobPlan,
    relations: Sequence[DataFrame],
    sources: Mapping[str, DataFrame],
    event_times: Mapping[str, str],
    partitions: Mapping[str, str],
) -> SourceRows | None:
    """Return the source of each side of the first step, a join; None unless each side's rows are a source's records.

    relations: the input of each side. Each side must go by the event time of its source, as the watermark does.
    """
    stage = plan.stages[0]
    names = [side.roots[0] for side in stage.sides if len(side.roots) == 1]
    is_told = len(names) == len(stage.sides) and len(set(names)) == len(names) and set(names) == set(plan.sources_read)
    if not is_told or not event_times.keys() >= set(names) or partitions.keys() & set(names):
        return None
    for name, side, relation in zip(names, stage.sides, relations, strict=True):
        origins = columns_of_source(relation, sources[name])
        if origins is None or side.event_time is None or origins.get(side.event_time) != event_times[name]:
            return None
    return SourceRows(sides=tuple(names))


def columns_of_source(frame: DataFrame, source: DataFrame) -> Mapping[str, str | None] | None:
    """Return {column of the frame: the column of the source that it is unchanged, else None}.

    Return None unless every row is one record.
    """
    positions = _origins(analysed(frame), analysed(source))
    if positions is None:
        return None
    names = [None if position is None else source.columns[position] for position in positions]
    return dict(zip(frame.columns, names, strict=True))


def _origins(node: Any, source: Any) -> list[int | None] | None:
    """Return the source column of each column of a node, by position; None for a column that is not of the source.

    Return None instead of a list if the rows of the node are not the records. Example: over a source (a, b), the node
    of `SELECT b AS c, a + 1 AS d` has [1, None].
    """
    if node.equals(source):
        return list(range(node.output().size()))
    kind = kind_of(node)
    if kind not in (*_ALIASES, "Project"):
        return None
    child = node.children().apply(0)
    below = _origins(child, source)
    if below is None or kind != "Project":
        return below
    ids = dict(zip(ids_of(child.output()), below, strict=True))
    return [_origin(expression, ids) for expression in items_of(node.projectList())]


def _origin(expression: Any, ids: Mapping[int, int | None]) -> int | None:
    """Return the position of the source column that an expression is, maybe under another name; else None."""
    kind = kind_of(expression)
    if kind == "Alias":
        return _origin(expression.child(), ids)
    return ids.get(id_of(expression)) if kind == "AttributeReference" else None
