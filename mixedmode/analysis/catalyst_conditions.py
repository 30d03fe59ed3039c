"""Reads conditions of Spark's analysed plan: the parts that AND combines, and comparisons of one side with another."""

from collections.abc import Iterator
from typing import Any

from mixedmode.analysis.catalyst_objects import kind_of

__all__ = ["TURNED", "compared", "conjuncts", "is_not_in"]

_Java = Any  # an object of the JVM

#: {comparison: the same with its sides exchanged}
TURNED = {
    "EqualTo": "EqualTo",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}


def conjuncts(condition: _Java) -> Iterator[_Java]:
    """Yield the conditions that AND combines, in the order in which Spark checks them."""
    if kind_of(condition) == "And":
        yield from conjuncts(condition.left())
        yield from conjuncts(condition.right())
    else:
        yield condition


def is_not_in(condition: _Java) -> bool:
    """Return whether a condition of a join is that of NOT IN: two values are equal, or that is NULL."""
    return (
        kind_of(condition) == "Or"
        and kind_of(condition.left()) == "EqualTo"
        and kind_of(condition.right()) == "IsNull"
        and bool(condition.left().semanticEquals(condition.right().child()))
    )


def compared(condition: _Java, of_left: _Java, of_right: _Java) -> tuple[str, tuple[_Java, _Java]] | None:
    """Return (comparison, (value of the left, value of the right)); None if a condition does not compare two.

    of_left, of_right: the columns of each side, as a set of Catalyst.
    """
    kind = kind_of(condition)
    if kind not in TURNED:
        return None
    first, second = condition.left(), condition.right()
    if _is_of(first, of_left) and _is_of(second, of_right):
        return kind, (first, second)
    if _is_of(second, of_left) and _is_of(first, of_right):
        return TURNED[kind], (second, first)
    return None


def _is_of(value: _Java, columns: _Java) -> bool:
    """Return whether a value reads these columns, and no others."""
    uses = value.references()
    return bool(uses.nonEmpty() and uses.subsetOf(columns))
