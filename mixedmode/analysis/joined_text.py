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
from mixedmode.analysis.written_sql import own_name

__all__ = ["joined_text", "union_text"]

_Java = Any  # an object of the JVM


def joined_text(session: SparkSession, left: PlanText, right: PlanText, node: _Java, kind: str) -> PlanText:
    """Return the text of a join, in which no two columns have one name.  kind: that of PlanText.kinds."""
    taken = {name.lower() for _, name in left.named}
    right.arrange([(column, own_name(name, taken)) for column, name in right.named])
    columns = [*left.named, *right.named]
    condition = node.condition()
    on = ""
    if condition.isDefined():
        named = {id_of(column): renamed(session, column, name) for column, name in columns}
        on = f" ON {text_over(session, condition.get(), named)}"
    output = set(ids_of(node.output()))  # without the right side, if each row of the left is there once
    timed = left.timed | right.timed
    return PlanText(
        session,
        (*left.inputs, *right.inputs),
        f"{left.table} {node.joinType().sql()} JOIN {right.table}{on}",
        [(column, name) for column, name in columns if id_of(column) in output],
        kinds={kind, *left.kinds, *right.kinds},
        timed=timed,
        times={*left.times, *right.times, *(name.lower() for column, name in columns if id_of(column) in timed)},
    )


def union_text(session: SparkSession, texts: Sequence[PlanText], node: _Java) -> PlanText:
    """Return the text of a UNION ALL.  texts: each with the columns in the order of those of the node.

    A column is an event time if it is one in all texts, under one name.
    """
    sides = list(zip(*(text.named for text in texts), strict=True))  # of each column
    times = frozenset[str]().union(*(text.times for text in texts))
    are_timed = [all(id_of(one) in text.timed for text, (one, _) in zip(texts, side, strict=True)) for side in sides]
    names = [
        side[0][1] if is_timed and len({name for _, name in side}) == 1 else None
        for side, is_timed in zip(sides, are_timed, strict=True)
    ]
    taken = {*times, *(name.lower() for name in names if name is not None)}
    output = list(items_of(node.output()))
    columns = [(one, name or own_name(str(one.name()), taken)) for one, name in zip(output, names, strict=True)]
    for text in texts:
        text.arrange([(column, name) for (column, _), (_, name) in zip(text.named, columns, strict=True)])
    return PlanText(
        session,
        [read for text in texts for read in text.inputs],
        f"({' UNION ALL '.join(text.written() for text in texts)})",
        columns,
        kinds={"Union"}.union(*(text.kinds for text in texts)),
        timed=[id_of(one) for one, name in zip(output, names, strict=True) if name is not None],
        times=times,
    )
