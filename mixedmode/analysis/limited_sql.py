"""ORDER BY with LIMIT as what it means for rows that change: the first rows by ROW_NUMBER.

Example: `SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 10` becomes

    SELECT * EXCEPT (place) FROM (SELECT *, row_number() OVER (ORDER BY `n` desc) AS place FROM (
    SELECT k, count(*) AS n FROM t GROUP BY k)) WHERE place <= 10

The order is that of Spark's plan, over columns of the result, and the rows are those of the text before ORDER BY. A
query with another order, or with OFFSET, stays as it is, and is refused by the checks of the text.
"""

from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import columns_of, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_over import directions
from mixedmode.analysis.catalyst_plans import analysed_plan, without_with
from mixedmode.analysis.catalyst_ranks import whole_number
from mixedmode.analysis.catalyst_texts import have_same_rows
from mixedmode.analysis.query_text import OrderedQuery, ordered_queries
from mixedmode.analysis.written_sql import unused_name
from mixedmode.config import OrderBy
from mixedmode.config.calls import quoted
from mixedmode.spark.errors import REFUSALS

__all__ = ["ranked_limits"]

_Java = Any  # an object of the JVM


def ranked_limits(session: SparkSession, sql: str) -> str:
    """Return the text with ROW_NUMBER in place of each ORDER BY with LIMIT that has the same rows so."""
    for query in ordered_queries(sql):
        ranked = _ranked(session, sql, query)
        if ranked is not None:
            return ranked_limits(session, ranked)
    return sql


def _ranked(session: SparkSession, sql: str, query: OrderedQuery) -> str | None:
    """Return the text with ROW_NUMBER in one of its queries; None if the query is not that of an input, or has more."""
    try:
        plan, rows = (without_with(session, analysed_plan(session, text)) for text in (query.whole, query.rows))
    except REFUSALS:
        return None  # the checks of the text say why
    if kind_of(plan) != "GlobalLimit" or not plan.isStreaming():
        return None
    number, sort = whole_number(plan.limitExpr()), plan.child().child()
    if number is None or kind_of(sort) != "Sort" or not have_same_rows(session, sort.child(), rows):
        return None
    columns = columns_of(sort.child().output())
    lowered = [name.lower() for name, _ in columns]
    names = {identity: name for name, identity in columns if lowered.count(name.lower()) == 1}
    order = [*items_of(sort.order())]
    if not all(kind_of(one.child()) == "AttributeReference" and id_of(one.child()) in names for one in order):
        return None
    by = ", ".join(str(OrderBy(quoted(names[id_of(one.child())]), *directions(one))) for one in order)
    place = unused_name("place", sql)
    ranked = f"SELECT *, row_number() OVER (ORDER BY {by}) AS {place} FROM (\n{query.body.strip()}\n)"  # noqa: S608 - the job's own SQL
    first = f"SELECT * EXCEPT ({place}) FROM ({ranked}) WHERE {place} <= {number}"  # noqa: S608 - the job's own SQL
    return f"{query.before}{first}{query.after}"
