"""Plans of SQL texts, as Spark analyses them.

Spark refuses a subquery that reads a stream. Where it is the condition of a WHERE, with IN or EXISTS, it is a join:

    SELECT id FROM o WHERE EXISTS (SELECT * FROM p WHERE p.id = o.id)
    SELECT id FROM o LEFT SEMI JOIN p ON p.id = o.id

So the plan of such a text has the join that Spark's optimiser would make of the subquery. What else Spark checks in a
text with subqueries, it checks over tables without rows in place of the streams.
"""

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.catalyst_objects import companion, items_of, kind_of, rows_of, sequence_of
from mixedmode.spark.active_session import active
from mixedmode.spark.errors import REFUSALS, STREAM_IN_SUBQUERY, condition
from mixedmode.spark.java_classes import java_class
from mixedmode.spark.temporary_views import views

__all__ = ["SCRIPT", "analysed_plan", "joins_of_subqueries", "no_rows", "rows_of_text", "without_with"]

_Java = Any  # an object of the JVM

SCRIPT = "CompoundBody"  # BEGIN ... END; Spark would run a part of it in order to analyse it
_OF_SUBQUERIES = ("PullupCorrelatedPredicates", "RewritePredicateSubquery")


def analysed_plan(session: SparkSession, sql: str) -> _Java:
    """Return the analysed plan of a query or a command; a script is only parsed. Raise the exceptions of Spark."""
    with active(session):
        return _analysed(session, sql)


def _analysed(session: SparkSession, sql: str) -> _Java:
    state: _Java = session._jsparkSession.sessionState()
    parsed = state.sqlParser().parsePlan(sql)
    if kind_of(parsed) == SCRIPT:
        return parsed
    try:
        return _checked(session, parsed)
    except REFUSALS as error:
        if condition(error) != STREAM_IN_SUBQUERY:
            raise
    with _without_streams(session):
        _checked(session, parsed)
    plan = joins_of_subqueries(session, without_with(session, state.analyzer().execute(parsed)))
    state.analyzer().checkAnalysis(plan)  # it has a subquery over a stream still, if that is no IN or EXISTS of a WHERE
    return plan


def rows_of_text(session: SparkSession, sql: str) -> DataFrame:
    """Return the rows of a query. Raise the exceptions of Spark."""
    return _frame(session, analysed_plan(session, sql))


def joins_of_subqueries(session: SparkSession, plan: _Java) -> _Java:
    """Return a plan with joins in place of IN and EXISTS with a subquery."""
    for rule in _OF_SUBQUERIES:
        plan = companion(session, f"optimizer.{rule}").apply(plan)
    return plan


def without_with(session: SparkSession, plan: _Java) -> _Java:
    """Return a plan with the queries of WITH in place of their names."""
    inline = companion(session, "optimizer.InlineCTE")
    try:
        rule = inline.apply(True, False, False)
    except Py4JError:  # of Spark 4.1
        rule = inline.apply(True, False)
    return rule.apply(plan)


def no_rows(session: SparkSession, columns: list[_Java]) -> DataFrame:
    """Return a frame of these columns, without rows."""
    relation = companion(session, "plans.logical.LocalRelation").apply(sequence_of(session, columns))
    return _frame(session, relation)


def _checked(session: SparkSession, parsed: _Java) -> _Java:
    state: _Java = session._jsparkSession.sessionState()
    return state.executePlan(parsed, _analysis_only(session)).analyzed()


def _without_streams(session: SparkSession) -> AbstractContextManager[None]:
    """Have temporary views of streams as tables without rows while the block runs."""
    catalog: _Java = session._jsparkSession.sessionState().catalog()
    names = [str(one.table()) for one in items_of(catalog.listLocalTempViews("*"))]
    plans = {name: catalog.getTempView(name).get() for name in names}
    # the SQL of a view of the user is not resolved yet, and may say STREAM
    streams = {name: plan for name, plan in plans.items() if plan.resolved() and plan.isStreaming()}
    return views(session, {name: no_rows(session, [*items_of(plan.output())]) for name, plan in streams.items()})


def _frame(session: SparkSession, plan: _Java) -> DataFrame:
    return DataFrame(rows_of(session)(session._jsparkSession, plan), session)


@lru_cache(maxsize=4)
def _analysis_only(session: SparkSession) -> _Java:
    """Return the mode in which Spark analyses commands and does not run them."""
    return java_class(session.sparkContext, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
