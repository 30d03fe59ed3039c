"""Finds out from Spark's analysed plan if each row of some SQL over a source is exactly one record of the source.

A plan that has only projections over the source's view drops no row and adds none. Spark gives each
column an id, and the column keeps the id as long as it is unchanged.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from mixedmode.plan.stages import JobPlan, SourceRows

__all__ = ["columns_of_source", "source_rows"]

_ALIASES = ("SubqueryAlias", "View")  # neither changes a row, nor the order of the columns


def source_rows(
    plan: JobPlan, first_input: DataFrame, source: DataFrame, event_time: str | None, partition: str | None
) -> SourceRows | None:
    """Return the event-time and partition columns of the first step's input; None if its rows are no records.

    first_input: of a plan with one reader of sources. event_time, partition: columns of the source, if it has them.
    """
    if len(plan.sources_read) > 1 or event_time is None:
        return None
    if not plan.maps and len(plan.reader(plan.entries[0])[0].relations) > 1:
        return None  # a record may be several rows
    columns = columns_of_source(first_input, source)
    wanted = [event_time, *([] if partition is None else [partition])]
    if columns is None or any(column not in columns for column in wanted):
        return None
    return SourceRows(*(columns[column] for column in wanted))


def columns_of_source(frame: DataFrame, source: DataFrame) -> Mapping[str, str] | None:
    """Return {column of the source: unchanged column of the frame}; None unless every row is one record."""
    positions = _origins(_analysed(frame), _analysed(source))
    if positions is None:
        return None
    found: dict[str, str] = {}
    for name, position in zip(frame.columns, positions, strict=True):
        if position is not None:
            found.setdefault(source.columns[position], name)
    return found


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the only way to a plan that is not text


def _origins(node: Any, source: Any) -> list[int | None] | None:
    """Return the source column of each column of a node, by position; None for a column that is not of the source.

    Return None instead of a list if the rows of the node are not the records. Example: over a source (a, b), the node
    of `SELECT b AS c, a + 1 AS d` has [1, None].
    """
    if node.equals(source):
        return list(range(node.output().size()))
    kind = node.getClass().getSimpleName()
    if kind not in (*_ALIASES, "Project"):
        return None
    child = node.children().apply(0)
    below = _origins(child, source)
    if below is None or kind != "Project":
        return below
    ids = {child.output().apply(i).exprId().id(): below[i] for i in range(len(below))}
    expressions = node.projectList()
    return [_origin(expressions.apply(i), ids) for i in range(expressions.size())]


def _origin(expression: Any, ids: Mapping[int, int | None]) -> int | None:
    """Return the position of the source column that an expression is, maybe under another name; else None."""
    kind = expression.getClass().getSimpleName()
    if kind == "Alias":
        return _origin(expression.child(), ids)
    return ids.get(expression.exprId().id()) if kind == "AttributeReference" else None
