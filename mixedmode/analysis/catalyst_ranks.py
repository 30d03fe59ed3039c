"""Reads a ROW_NUMBER of Spark's analysed plan, and the greatest rank that the conditions around it let pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_conditions import TURNED, conjuncts
from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of, kind_of, view_name
from mixedmode.analysis.catalyst_over import OverQuery, functions_of, is_column
from mixedmode.analysis.catalyst_plans import without_with
from mixedmode.analysis.catalyst_texts import projected, replaced

__all__ = ["Ranked", "greatest_rank", "rank_limit", "whole_number"]

_Java = Any  # an object of the JVM
#: {comparison of a rank with a number: what is added to the number for the greatest rank}
_BOUNDS = {"LessThan": -1, "LessThanOrEqual": 0, "EqualTo": 0}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ROW_NUMBER, and the SELECT and QUALIFY around it.  query: see OverQuery. rank: the column of the rank."""

    query: OverQuery
    rank: _Java

    @classmethod
    def of(cls, session: SparkSession, plan: _Java) -> Self | None:
        """Return the ROW_NUMBER of a plan; None if there is none over an input, or more than SELECT around it."""
        functions = functions_of(plan)  # all have one PARTITION BY and ORDER BY
        if not functions or any(kind_of(one.child().windowFunction()) != "RowNumber" for one in functions):
            return None
        rank = functions[0].toAttribute()
        return cls(OverQuery.of(session, plan, {id_of(one): rank for one in functions}), rank)

    @property
    def place(self) -> int | None:
        """The position of the rank among the columns of the whole; None if it is no column."""
        number = id_of(self.rank)
        values = [one.value for one in self.query.shown]
        found = [at for at, one in enumerate(values) if _is_rank(one, number)]
        return found[0] if found else None


def rank_limit(session: SparkSession, plan: _Java, view: str, place: int) -> int | None:
    """Return the greatest rank that is read of a view, whose column at `place` has ranks; None if any rank may be."""
    limits = [*_limits(session, without_with(session, plan), view, place, [])]
    return max((one for one in limits if one is not None), default=None) if None not in limits else None


def greatest_rank(conditions: Sequence[_Java], rank: int) -> int | None:
    """Return the greatest rank for which all conditions can be true; None if there is none.  rank: its id."""
    limits = [_limit(part, rank) for one in conditions for part in conjuncts(one)]
    return min((limit for limit in limits if limit is not None), default=None)


def _limits(
    session: SparkSession, plan: _Java, view: str, place: int, conditions: Sequence[_Java]
) -> Iterator[int | None]:
    """Yield the greatest rank of each reading of a view.  conditions: those above the plan, over its columns."""
    kind = kind_of(plan)
    if kind == "View" and view_name(plan) == view:
        yield greatest_rank(conditions, ids_of(plan.output())[place])
    elif kind == "Filter":
        yield from _limits(session, plan.child(), view, place, [*conditions, plan.condition()])
    elif kind == "Project":
        values = projected(session, plan, {})
        below = [replaced(session, one, values) for one in conditions]
        yield from _limits(session, plan.child(), view, place, below)
    elif kind in ("PipeOperator", "SubqueryAlias"):
        yield from _limits(session, plan.child(), view, place, conditions)
    else:
        for child in items_of(plan.children()):
            yield from _limits(session, child, view, place, [])


def _limit(condition: _Java, rank: int) -> int | None:
    kind = kind_of(condition)
    if kind == "Between":
        value, _, greatest = items_of(condition.parameters())
        return whole_number(greatest) if _is_rank(value, rank) else None
    if kind == "In" and _is_rank(condition.value(), rank):
        numbers = [whole_number(one) for one in items_of(condition.list())]
        return None if None in numbers else max(one for one in numbers if one is not None)
    if kind not in TURNED:
        return None
    left, right = condition.left(), condition.right()
    if not _is_rank(left, rank):
        kind, left, right = TURNED[kind], right, left
    number = whole_number(right) if kind in _BOUNDS and _is_rank(left, rank) else None
    return None if number is None else number + _BOUNDS[kind]


def _is_rank(value: _Java, rank: int) -> bool:
    return is_column(value) and id_of(value) == rank


def whole_number(value: _Java) -> int | None:
    """Return a whole number that is written out; None for any other value."""
    is_number = kind_of(value) == "Literal" and str(value.dataType().sql()) == "INT" and value.value() is not None
    return int(value.value()) if is_number else None
