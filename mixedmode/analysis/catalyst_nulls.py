"""Says if a value in the analysed plan of Spark may be NULL, also by the conditions that its rows meet."""

from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import companion, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import projected, replaced

__all__ = ["may_be_null"]

_Java = Any  # an object of the JVM

_PASSING = frozenset({"Filter", "Project", "SubqueryAlias", "View"})


def may_be_null(session: SparkSession, value: _Java, plan: _Java) -> bool:
    """Return whether a value over the columns of a plan may be NULL.

    A column that Spark thinks may be NULL is none where a filter says so, such as `k IS NOT NULL` or `k > 1`.
    """
    known, never = plan.constraints(), dict[int, _Java]()
    for column in items_of(value.references().toSeq()):
        if not column.nullable() or known.contains(companion(session, "expressions.IsNotNull").apply(column)):
            never[id_of(column)] = column.withNullability(False)
    value = replaced(session, value, never)
    if not value.nullable():
        return False
    if kind_of(plan) == "Project":
        made = projected(session, plan, {})
        value = replaced(session, value, {number: one for number, one in made.items() if number not in never})
    return kind_of(plan) not in _PASSING or may_be_null(session, value, plan.child())
