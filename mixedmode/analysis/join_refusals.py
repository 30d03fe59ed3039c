"""Texts of the errors for joins in SQL that no step is: why they are none, and what to write instead."""

from typing import Any

from mixedmode.analysis.catalyst_conditions import conjuncts, is_not_in

__all__ = ["AS_VALUE", "without_key"]

_Java = Any  # an object of the JVM

AS_VALUE = (
    "IN and EXISTS with a subquery over an input are conditions of WHERE, alone or with AND. For a column, or with OR, "
    "use LEFT JOIN (SELECT DISTINCT id FROM p) q ON q.id = o.id, and q.id IS NOT NULL. found=IN or EXISTS as a value"
)
_NO_KEY = (
    "rows of two inputs meet by key. Add the columns in which they are equal to ON, such as a.id = b.id (a.id <=> b.id "
    "is no key, as NULL equals NULL in it), or make one of the inputs a broadcast input of a function. found=a join "
    "without an equality"
)
_NOT_IN = (
    "NOT IN returns no row at all as soon as the subquery has a NULL, so one record could retract the whole result. "
    "Write NOT EXISTS (SELECT * FROM p WHERE p.id = o.id), which is mostly what is meant; or say that neither side is "
    "NULL: WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM p WHERE id IS NOT NULL). found=NOT IN of values that "
    "may be NULL"
)


def without_key(join: _Java) -> str:
    """Return the text of the error for a join that has no key."""
    condition = join.condition()
    is_of_not_in = condition.isDefined() and any(map(is_not_in, conjuncts(condition.get())))
    return _NOT_IN if is_of_not_in else _NO_KEY
