"""Whether the rows that SQL makes of a source are its records, one for one, judged from Spark's analysed plan.

The one idea: a plan of nothing but projections over the source's view drops no row and adds none, and Spark gives a
column an id that it keeps for as long as the column stays what it was.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["columns_of_source"]

_ALIASES = ("SubqueryAlias", "View")  # neither changes a row, nor the order of the columns


def columns_of_source(frame: DataFrame, source: DataFrame) -> Mapping[str, str] | None:
    """{column of the source: column of the frame that holds it unchanged}; None unless every row is one record."""
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
    """For each column of a node, which of the source it is, None if another; None if rows are not records."""
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
    """Which column of the source an expression is, if it is one, maybe under another name."""
    kind = expression.getClass().getSimpleName()
    if kind == "Alias":
        return _origin(expression.child(), ids)
    return ids.get(expression.exprId().id()) if kind == "AttributeReference" else None
