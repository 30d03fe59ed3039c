"""A sql step with a ROW_NUMBER as what it means: a sql step, a step with `top`, and a sql step over its rows.

Example: `SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t`, of which WHERE n <= 3 is read, is

    before   SELECT k, v FROM t
    step     key-by: [k], top: {n: 3, order-by: [v desc]}
    after    SELECT k, v, rank AS n FROM previous

The condition stays in the SQL that has it. Of rows that are equal in ORDER BY, Spark numbers any one first; `top`
orders them by their other columns.
"""

from pydantic import ValidationError
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import top_of
from mixedmode.analysis.catalyst_objects import id_of
from mixedmode.analysis.catalyst_ranks import Ranked, greatest_rank
from mixedmode.analysis.catalyst_texts import TextLostError
from mixedmode.analysis.grouped_sql import GroupedSql
from mixedmode.analysis.over_columns import after_text, column_names, read_columns
from mixedmode.analysis.query_text import before_qualify
from mixedmode.analysis.window_columns import bounds_of
from mixedmode.analysis.written_sql import selected, types_of, with_text
from mixedmode.config import OrderBy, SqlStep, TopStep
from mixedmode.config.steps import RANK_COLUMN
from mixedmode.errors import InvalidJobError

__all__ = ["ranked_sql"]

_WRITE = "Write a sql step with its FROM and WHERE, then a step with key-by and top."


def ranked_sql(
    session: SparkSession, query: AnalysedQuery, step: SqlStep, *, name: str, where: str, limit: int | None
) -> GroupedSql | None:
    """Return the steps for a query whose top is a ROW_NUMBER over an input; None for another one.

    None, too, if any rank may be read. name: that of the keyed step. limit: the greatest rank that the text around the
    query reads; None if there is none. Raise InvalidJobError for expressions whose text Spark reads as others.
    """
    ranked = Ranked.of(session, top_of(query.plan))
    parts = None if ranked is None else before_qualify(step.sql)
    if ranked is None or parts is None:
        return None
    own = greatest_rank(ranked.query.conditions, id_of(ranked.rank))
    n = min((one for one in (own, limit) if one is not None), default=None)
    if n is None:
        return None
    names, of_windows = column_names(ranked.query, {RANK_COLUMN}), ranked.query.windows
    is_key = any(number in ranked.query.keys for number in of_windows)
    bounds = bounds_of({number: names[number] for number in of_windows}, names.values(), is_key=is_key)
    made_of = {number: bounds.get(number, (own,)) for number, own in names.items()}
    try:
        before = selected(session, step, parts, read_columns(session, ranked.query, made_of), ranked.query.source)
        first = next(iter(ranked.query.columns))
        by = ranked.query.order or [(first, False, True)]  # only a constant: the whole row decides
        order = [OrderBy(column, *directions) for one, *directions in by for column in made_of[one]]
        keys = list(dict.fromkeys(column for number in ranked.query.keys for column in made_of[number]))
        settings = {"top": {"n": max(1, n), "order-by": order}} | ({"key-by": keys} if keys else {})
        top = TopStep.model_validate(settings)
        after = with_text(step, after_text(session, ranked.query, names, [(ranked.rank, RANK_COLUMN)], bounds))
    except (TextLostError, ValidationError) as error:
        msg = f"{where}: the step with top for this ROW_NUMBER cannot be written out. {_WRITE} found={error}"
        raise InvalidJobError(msg) from error
    return GroupedSql(before, top.model_copy(update={"name": name}), after, types_of(query.frame(session)))
