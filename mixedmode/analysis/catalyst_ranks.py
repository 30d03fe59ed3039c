"""Reads a ROW_NUMBER of Spark's analysed plan, and the greatest rank that the conditions around it let pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_aggregates import Shown, has_windows
from mixedmode.analysis.catalyst_conditions import TURNED, conjuncts
from mixedmode.analysis.catalyst_objects import columns_of, id_of, ids_of, items_of, kind_of, view_name
from mixedmode.analysis.catalyst_plans import without_with
from mixedmode.analysis.catalyst_texts import projected, replaced

__all__ = ["Ranked", "directions", "greatest_rank", "rank_limit", "whole_number"]

_Java = Any  # an object of the JVM
_ABOVE = frozenset({"Filter", "Project"})
#: {comparison of a rank with a number: what is added to the number for the greatest rank}
_BOUNDS = {"LessThan": -1, "LessThanOrEqual": 0, "EqualTo": 0}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ROW_NUMBER, and the SELECT and QUALIFY around it.

    source: the plan of FROM and WHERE. columns: {id: (the column, its value over `source`)}. keys: the ids of those of
    PARTITION BY. order: (id, descending, NULL first) of those of ORDER BY. Constants are left out of both. rank: the
    column of the rank. shown: the columns of the whole, and conditions those of QUALIFY, over `columns` and `rank`.
    """

    source: _Java
    columns: Mapping[int, tuple[_Java, _Java]]
    keys: Sequence[int]
    order: Sequence[tuple[int, bool, bool]]
    rank: _Java
    shown: tuple[Shown, ...]
    conditions: tuple[_Java, ...]

    @classmethod
    def of(cls, session: SparkSession, plan: _Java) -> Self | None:
        """Return the ROW_NUMBER of a plan; None if there is none over an input, or more than SELECT around it."""
        above, node = list[_Java](), plan
        while kind_of(node) in _ABOVE:
            above.insert(0, node)
            node = node.child()
        if kind_of(node) != "Window" or not node.isStreaming():
            return None
        functions = [*items_of(node.windowExpressions())]  # all have one PARTITION BY and ORDER BY
        if any(kind_of(one.child().windowFunction()) != "RowNumber" for one in functions):
            return None
        rank = functions[0].toAttribute()
        columns = {id_of(one): one for one in items_of(node.child().output())}
        values = {**columns, **{id_of(one): rank for one in functions}}
        conditions = []
        for upper in above:
            if kind_of(upper) == "Filter":
                conditions.append(replaced(session, upper.condition(), values))
            else:
                values = projected(session, upper, values)
        source, below = node.child(), dict(columns)
        while kind_of(source) == "Project":
            made = projected(session, source, {})
            below = {number: replaced(session, value, made) for number, value in below.items()}
            source = source.child()
        keys = [id_of(one) for one in items_of(node.partitionSpec()) if _is_column(one)]
        names, numbers = zip(*columns_of(plan.output()), strict=True)
        shown = [values[number] for number in numbers]
        renamed = _renamed(below, keys, [id_of(one) for one in shown if _is_column(one)])
        now = {number: columns[other] for number, other in renamed.items()}
        order = [
            (id_of(one.child()), *directions(one)) for one in items_of(node.orderSpec()) if _is_column(one.child())
        ]
        return cls(
            source,
            {number: (one, below[number]) for number, one in columns.items() if number not in renamed},
            [renamed.get(number, number) for number in keys],
            [(renamed.get(number, number), descending, first) for number, descending, first in order],
            rank,
            tuple(Shown(name, replaced(session, one, now)) for one, name in zip(shown, names, strict=True)),
            tuple(replaced(session, one, now) for one in conditions),
        )

    @property
    def windows(self) -> list[int]:
        """The ids of the columns that have the windows of a query below."""
        return [number for number, (_, value) in self.columns.items() if has_windows(self.source, value)]

    @property
    def place(self) -> int | None:
        """The position of the rank among the columns of the whole; None if it is no column."""
        number = id_of(self.rank)
        values = [one.value for one in self.shown]
        found = [at for at, one in enumerate(values) if _is_rank(one, number)]
        return found[0] if found else None


def _renamed(values: Mapping[int, _Java], keys: Sequence[int], shown: Sequence[int]) -> dict[int, int]:
    """Return {id of a key: id of a column that is shown in its place}, as in SELECT n AS m with PARTITION BY n.

    values: {id: value} of the columns. shown: the ids of the columns that are shown. Spark makes two columns of the
    value, and of a key that is not shown, no row would be found again.
    """
    others = [number for number in shown if number in values]
    same = {
        key: next((number for number in others if values[number].semanticEquals(values[key])), key)
        for key in keys
        if key not in shown
    }
    return {key: number for key, number in same.items() if key != number}


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
    return _is_column(value) and id_of(value) == rank


def _is_column(value: _Java) -> bool:
    return kind_of(value) == "AttributeReference"


def whole_number(value: _Java) -> int | None:
    """Return a whole number that is written out; None for any other value."""
    is_number = kind_of(value) == "Literal" and str(value.dataType().sql()) == "INT" and value.value() is not None
    return int(value.value()) if is_number else None


def directions(order: _Java) -> tuple[bool, bool]:
    """Return whether an order is descending, and whether NULL comes first."""
    return str(order.direction().sql()) == "DESC", str(order.nullOrdering().sql()) == "NULLS FIRST"
