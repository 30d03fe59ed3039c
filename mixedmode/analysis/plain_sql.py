"""Texts in the form that the steps are found in: each query that brings rows together is in parentheses of its own.

A text is changed only if its plan stays the same, but for ORDER BY with LIMIT (limited_sql.py).
"""

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import columns_of
from mixedmode.analysis.catalyst_plans import analysed_plan
from mixedmode.analysis.catalyst_texts import have_same_rows
from mixedmode.analysis.limited_sql import ranked_limits
from mixedmode.analysis.query_text import with_parentheses
from mixedmode.analysis.written_sql import with_text
from mixedmode.config import SqlStep
from mixedmode.spark.errors import REFUSALS

__all__ = ["plain_sql"]


def plain_sql(session: SparkSession, step: SqlStep) -> SqlStep:
    """Return a sql step with parentheses around the parts of UNION, INTERSECT and EXCEPT that need them, and with
    ROW_NUMBER in place of ORDER BY with LIMIT.

    The step as it is if Spark reads another plan then, or refuses its text.
    """
    step = with_text(step, ranked_limits(session, step.sql))
    text = with_parentheses(step.sql)
    if text == step.sql:
        return step
    try:
        given, written = (analysed_plan(session, sql) for sql in (step.sql, text))
    except REFUSALS:
        return step  # the checks of the text say why
    names = [[name for name, _ in columns_of(plan.output())] for plan in (given, written)]
    is_same = names[0] == names[1] and have_same_rows(session, given, written)
    return with_text(step, text) if is_same else step
