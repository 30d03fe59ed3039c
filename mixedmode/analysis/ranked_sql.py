"""A sql step with a ROW_NUMBER as what it means: a sql step, a step with `top`, and a sql step over its rows.

Example: `SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t`, of which WHERE n <= 3 is read, is

    before   SELECT k, v FROM t
    step     key-by: [k], top: {n: 3, order-by: [v desc]}
    after    SELECT k, v, rank AS n FROM previous

The condition stays in the SQL that has it. Of rows that are equal in ORDER BY, Spark numbers any one first; `top`
orders them by their other columns.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import top_of
from mixedmode.analysis.catalyst_objects import id_of
from mixedmode.analysis.catalyst_ranks import Ranked, greatest_rank
from mixedmode.analysis.catalyst_texts import TextLostError, columns_over
from mixedmode.analysis.grouped_sql import GroupedSql
from mixedmode.analysis.query_text import before_qualify
from mixedmode.analysis.window_columns import bounds_of, window_values, with_windows
from mixedmode.analysis.written_sql import free_name, is_free, item, selected, types_of, with_text
from mixedmode.config import OrderBy, SqlStep, TopStep
from mixedmode.config.steps import RANK_COLUMN
from mixedmode.config.windows import WINDOW_COLUMNS
from mixedmode.errors import InvalidJobError

__all__ = ["ranked_sql"]

_Java = Any  # an object of the JVM
_WRITE = "Write a sql step with its FROM and WHERE, then a step with key-by and top."


def ranked_sql(
    session: SparkSession, query: AnalysedQuery, step: SqlStep, *, name: str, where: str, limit: int | None
) -> GroupedSql | None:
    """Return the steps for a query whose top is a ROW_NUMBER over an input; None for another one.

    name: that of the keyed step. limit: the greatest rank that the text around the query reads; None if there is none.
    Raise InvalidJobError if any rank may be read, and for expressions whose text Spark does not read as they are.
    """
    ranked = Ranked.of(session, top_of(query.plan))
    parts = None if ranked is None else before_qualify(step.sql)
    if ranked is None or parts is None:
        return None
    own = greatest_rank(ranked.conditions, id_of(ranked.rank))
    n = min((one for one in (own, limit) if one is not None), default=None)
    if n is None:
        msg = (
            f"{where}: ROW_NUMBER runs as a step with top, which keeps the first rows of each key. Say how many rows "
            "are kept: put the query into parentheses, and write WHERE n <= 3 around it, where n is the column of the "
            "ROW_NUMBER; or write QUALIFY n <= 3."
        )
        raise InvalidJobError(msg)
    names, of_windows = _names(ranked), ranked.windows
    is_key = any(number in ranked.keys for number in of_windows)
    bounds = bounds_of({number: names[number] for number in of_windows}, names.values(), is_key=is_key)
    made_of = {number: bounds.get(number, (own,)) for number, own in names.items()}
    try:
        before = selected(session, step, parts, _wanted(session, ranked, made_of), ranked.source)
        by = ranked.order or [(next(iter(ranked.columns)), False, True)]  # only a constant: the whole row decides
        order = [OrderBy(column, *directions) for one, *directions in by for column in made_of[one]]
        keys = list(dict.fromkeys(column for number in ranked.keys for column in made_of[number]))
        settings = {"top": {"n": max(1, n), "order-by": order}} | ({"key-by": keys} if keys else {})
        top = TopStep.model_validate(settings)
        after = with_text(step, _after(session, ranked, names, bounds))
    except (TextLostError, ValidationError) as error:
        msg = f"{where}: the step with top for this ROW_NUMBER cannot be written out. {_WRITE} found={error}"
        raise InvalidJobError(msg) from error
    return GroupedSql(before, top.model_copy(update={"name": name}), after, types_of(query.frame(session)))


def _wanted(session: SparkSession, ranked: Ranked, made_of: Mapping[int, tuple[str, ...]]) -> list[tuple[_Java, str]]:
    """Return the columns for the step, and their names.  made_of: {id: the names of what a column becomes}."""
    wanted = list[tuple[_Java, str]]()
    for number, (_, value) in ranked.columns.items():
        own = made_of[number]
        values = [value] if len(own) == 1 else window_values(session, value, ["start", "end"])
        wanted += zip(values, own, strict=True)
    return wanted


def _names(ranked: Ranked) -> dict[int, str]:
    """Return {id: name} of the columns: their own, if it is free."""
    taken = {RANK_COLUMN, *(WINDOW_COLUMNS if ranked.windows else ())}
    names = {}
    for number, (column, value) in ranked.columns.items():
        own = str(column.name())
        if is_free(own, taken):
            taken.add(own.lower())
            names[number] = own
        else:
            names[number] = free_name(str(value.sql()) if own.startswith("_") else own, taken)
    return names


def _after(
    session: SparkSession, ranked: Ranked, names: Mapping[int, str], bounds: Mapping[int, tuple[str, str]]
) -> str:
    """Return the sql over the rows of `top`.  bounds: see `bounds_of`."""
    given = [(column, names[number]) for number, (column, _) in ranked.columns.items()]
    values = [one.value for one in ranked.shown]
    texts = columns_over(session, [*given, (ranked.rank, RANK_COLUMN)], [*values, *ranked.conditions])
    items = ", ".join(item(text, one.name) for text, one in zip(texts, ranked.shown, strict=False))
    conditions = " AND ".join(texts[len(values) :])
    where = f" WHERE {conditions}" if conditions else ""
    rows = with_windows({names[number]: own for number, own in bounds.items()})
    return f"SELECT {items} FROM {rows}{where}"  # noqa: S608 - the job's own SQL
