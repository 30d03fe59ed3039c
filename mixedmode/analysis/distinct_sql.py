"""A sql step whose rows are there once, by DISTINCT or a set operation, as what it means: sql and a keyed step.

Example: `SELECT k FROM s UNION SELECT k FROM t` becomes

    before   SELECT k FROM s UNION ALL SELECT k FROM t
    step     key-by: [k], deduplicate: {keep: any}

and with INTERSECT or EXCEPT in place of UNION

    before   SELECT *, true AS is_left FROM (SELECT k FROM s) UNION ALL SELECT *, false FROM (SELECT k FROM t)
    step     key-by: [k], aggregate: {left_rows: count_if(is_left), right_rows: count_if(NOT is_left)}
    after    SELECT k FROM previous WHERE left_rows > 0 AND right_rows > 0 (of EXCEPT: right_rows = 0)

NULLs are equal in both, as in a key.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst import AnalysedQuery
from mixedmode.analysis.catalyst_aggregates import has_windows, top_of
from mixedmode.analysis.catalyst_objects import companion, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_plans import analysed_plan, without_with
from mixedmode.analysis.catalyst_texts import have_same_rows
from mixedmode.analysis.grouped_sql import GroupedSql, aggregate_step, distinct_step
from mixedmode.analysis.query_text import parts_of_operator, without_distinct
from mixedmode.analysis.window_columns import bounds_of, with_windows
from mixedmode.analysis.written_sql import free_name, item, types_of, with_text
from mixedmode.config import SqlStep
from mixedmode.config.calls import AggregateCall, quoted
from mixedmode.config.graph import PREVIOUS
from mixedmode.errors import InvalidJobError

__all__ = ["distinct_sql"]

_Java = Any  # an object of the JVM

_SETS = {"Intersect": ">", "Except": "="}  # how many of the right rows of a key there are, compared with 0


def distinct_sql(
    session: SparkSession, query: AnalysedQuery, step: SqlStep, *, name: str, where: str
) -> GroupedSql | None:
    """Return the steps for a query whose top is a DISTINCT or a set operation of inputs; None if its text is more.

    step: has the text of the query. name: that of the keyed step. Raise InvalidJobError if a column has a name that no
    key has.
    """
    top = top_of(query.plan)
    if kind_of(top) in _SETS:
        return _compared(session, query, step, name, where)
    before = without_distinct(step.sql) if kind_of(top) == "Distinct" and top.isStreaming() else None
    if before is None or not _is_distinct(session, query.plan, before):
        return None
    rows = query.frame(session)
    windows = {id_of(one): str(one.name()) for one in items_of(top.output()) if has_windows(top.child(), one)}
    try:
        if windows:
            return _distinct_windows(step, before, types_of(rows), windows, name)
        return GroupedSql(with_text(step, before), distinct_step(rows.columns, name), None, types_of(rows))
    except ValidationError as error:
        raise _refused(rows.columns, where) from error


def _compared(session: SparkSession, query: AnalysedQuery, step: SqlStep, name: str, where: str) -> GroupedSql | None:
    """Return the steps for an INTERSECT or an EXCEPT of two inputs; None if its text is more than that."""
    plan = without_with(session, query.plan)
    parts = parts_of_operator(step.sql)
    if parts is None or plan.isAll() or not all(one.isStreaming() for one in items_of(plan.children())):
        return None
    prefix, left, right = parts
    both = without_with(session, analysed_plan(session, f"{prefix}{left} UNION ALL {right}"))
    pairs = list(zip(items_of(both.children()), items_of(plan.children()), strict=False))
    if kind_of(both) != "Union" or not all(have_same_rows(session, one, other) for one, other in pairs):
        return None
    rows = query.frame(session)
    taken = {column.lower() for column in rows.columns}
    mark, *counts = (free_name(one, taken) for one in ("is_left", "left_rows", "right_rows"))
    before = f"{prefix}SELECT *, true AS {mark} FROM {left} UNION ALL SELECT *, false FROM {right}"  # noqa: S608 - the job's own SQL
    calls = {
        own: AggregateCall.parse(f"count_if({text})") for own, text in zip(counts, (mark, f"NOT {mark}"), strict=True)
    }
    sign = _SETS[kind_of(plan)]
    after = (
        f"SELECT {', '.join(map(quoted, rows.columns))} FROM {PREVIOUS} WHERE {counts[0]} > 0 AND {counts[1]} {sign} 0"  # noqa: S608 - as above
    )
    try:
        counted = aggregate_step({"key-by": rows.columns}, calls, rows.columns, name)
    except ValidationError as error:
        raise _refused(rows.columns, where) from error
    return GroupedSql(with_text(step, before), counted, with_text(step, after), types_of(rows))


def _refused(columns: Sequence[str], where: str) -> InvalidJobError:
    msg = (
        f"{where}: the columns of SELECT DISTINCT, UNION, INTERSECT and EXCEPT are a key here, and one has a name that "
        "no key can have, or that another one has. Give each a name of its own with AS. "
        f"found={', '.join(map(repr, columns))}"
    )
    return InvalidJobError(msg)


def _is_distinct(session: SparkSession, plan: _Java, before: str) -> bool:
    """Return whether a plan returns each row of a text once.

    A UNION of more than two parts is a DISTINCT of the UNION ALL of all of them, as for Spark's optimiser.
    """
    written = companion(session, "plans.logical.Distinct").apply(analysed_plan(session, before))
    first, second = (
        companion(session, "optimizer.CombineUnions").apply(without_with(session, one)) for one in (plan, written)
    )
    return have_same_rows(session, first, second)


def _distinct_windows(
    step: SqlStep, before: str, types: Mapping[str, str], windows: Mapping[int, str], name: str
) -> GroupedSql:
    """Return the steps for a DISTINCT of columns of which some have windows: a count, which is final with the windows.

    before: the text without DISTINCT.
    """
    bounds = {windows[number]: own for number, own in bounds_of(windows, types, is_key=True).items()}
    read = list[tuple[str, str]]()
    for column in types:
        if column in bounds:
            start, end = bounds[column]
            read += [(f"{quoted(column)}.start", start), (f"{quoted(column)}.end", end)]
        else:
            read.append((quoted(column), column))
    keys = [own for _, own in read]
    items = ", ".join(item(text, own) for text, own in read)
    sql = f"SELECT {items} FROM (\n{before}\n)"  # noqa: S608 - the job's own SQL
    after = f"SELECT {', '.join(map(quoted, types))} FROM {with_windows(bounds)}"  # noqa: S608 - the job's own SQL
    counted = aggregate_step({"key-by": keys}, {}, keys, name)
    only = next(iter(bounds)) if len(bounds) == 1 else None
    return GroupedSql(with_text(step, sql), counted, with_text(step, after), types, windows=only)
