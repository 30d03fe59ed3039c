"""Writes joins and unions of an analysed plan as SQL over the texts of their inputs.

Example: `SELECT id FROM records_1` and `records_2` become

    (SELECT id FROM records_1) LEFT OUTER JOIN records_2 ON (id = id_2)
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of
from mixedmode.analysis.catalyst_texts import renamed, text_over
from mixedmode.analysis.plan_text import PlanText
from mixedmode.analysis.written_sql import free_name, own_name

__all__ = ["joined_text", "union_text"]

_Java = Any  # an object of the JVM


def joined_text(session: SparkSession, left: PlanText, right: PlanText, node: _Java) -> PlanText:
    """Return the text of a join of streams, or of one with a table, in which no two columns have one name."""
    taken = {name.lower() for _, name in left.named}
    right.arrange([(column, _free(name, taken)) for column, name in right.named])
    columns = [*left.named, *right.named]
    condition = node.condition()
    on = ""
    if condition.isDefined():
        named = {id_of(column): renamed(session, column, name) for column, name in columns}
        on = f" ON {text_over(session, condition.get(), named)}"
    kind = "Join" if node.left().isStreaming() and node.right().isStreaming() else "Table"
    output = set(ids_of(node.output()))  # without the right side, if each row of the left is there once
    return PlanText(
        session,
        (*left.inputs, *right.inputs),
        f"{left.table} {node.joinType().sql()} JOIN {right.table}{on}",
        [(column, name) for column, name in columns if id_of(column) in output],
        kinds={kind, *left.kinds, *right.kinds},
    )


def union_text(session: SparkSession, texts: Sequence[PlanText], node: _Java) -> PlanText:
    """Return the text of a UNION ALL.  texts: each with the columns in the order of those of the node."""
    taken = set[str]()
    columns = [(column, own_name(str(column.name()), taken)) for column in items_of(node.output())]
    for text in texts:
        text.arrange([(column, name) for (column, _), (_, name) in zip(text.named, columns, strict=True)])
    return PlanText(
        session,
        [read for text in texts for read in text.inputs],
        f"({' UNION ALL '.join(text.written() for text in texts)})",
        columns,
        kinds={"Union"}.union(*(text.kinds for text in texts)),
    )


def _free(name: str, taken: set[str]) -> str:
    """Return a name, or one made of it if it is taken. Add it to those that are."""
    if name.lower() in taken:
        return free_name(name, taken)
    taken.add(name.lower())
    return name
