"""Reads the functions with OVER of Spark's analysed plan, and the SELECT and QUALIFY around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_aggregates import Shown, has_windows
from mixedmode.analysis.catalyst_objects import columns_of, id_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import projected, replaced

__all__ = ["OverQuery", "directions", "functions_of", "is_column"]

_Java = Any  # an object of the JVM
_ABOVE = frozenset({"Filter", "Project"})


@dataclass(frozen=True, slots=True)
class OverQuery:
    """Functions with one PARTITION BY and ORDER BY, and the SELECT and QUALIFY around them.

    source: the plan of FROM and WHERE. columns: {id: (the column, its value over `source`)}. keys: the ids of those of
    PARTITION BY. order: (id, descending, NULL first) of those of ORDER BY. Constants are left out of both. shown: the
    columns of the whole, and conditions those of QUALIFY, over `columns` and the results of the functions.
    """

    source: _Java
    columns: Mapping[int, tuple[_Java, _Java]]
    keys: Sequence[int]
    order: Sequence[tuple[int, bool, bool]]
    shown: tuple[Shown, ...]
    conditions: tuple[_Java, ...]

    @classmethod
    def of(cls, session: SparkSession, plan: _Java, results: Mapping[int, _Java]) -> Self:
        """Return the query of a plan with functions (see `functions_of`).

        results: {id of a function: the column of its result}.
        """
        above, node = _split(plan)
        columns = {id_of(one): one for one in items_of(node.child().output())}
        values = {**columns, **results}
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
        keys = [id_of(one) for one in items_of(node.partitionSpec()) if is_column(one)]
        names, numbers = zip(*columns_of(plan.output()), strict=True)
        shown = [values[number] for number in numbers]
        renamed = _renamed(below, keys, [id_of(one) for one in shown if is_column(one)])
        now = {number: columns[other] for number, other in renamed.items()}
        order = [(id_of(one.child()), *directions(one)) for one in items_of(node.orderSpec()) if is_column(one.child())]
        return cls(
            source,
            {number: (one, below[number]) for number, one in columns.items() if number not in renamed},
            [renamed.get(number, number) for number in keys],
            [(renamed.get(number, number), descending, first) for number, descending, first in order],
            tuple(Shown(name, replaced(session, one, now)) for one, name in zip(shown, names, strict=True)),
            tuple(replaced(session, one, now) for one in conditions),
        )

    @property
    def windows(self) -> list[int]:
        """The ids of the columns that have the windows of a query below."""
        return [number for number, (_, value) in self.columns.items() if has_windows(self.source, value)]


def functions_of(plan: _Java) -> list[_Java]:
    """Return the functions with OVER at the top of a plan over an input, which have names; [] if there are none."""
    _, node = _split(plan)
    return [*items_of(node.windowExpressions())] if kind_of(node) == "Window" and node.isStreaming() else []


def directions(order: _Java) -> tuple[bool, bool]:
    """Return whether an order is descending, and whether NULL comes first."""
    return str(order.direction().sql()) == "DESC", str(order.nullOrdering().sql()) == "NULLS FIRST"


def is_column(value: _Java) -> bool:
    """Return whether a value is a column as it is."""
    return kind_of(value) == "AttributeReference"


def _split(plan: _Java) -> tuple[list[_Java], _Java]:
    """Return the SELECT and QUALIFY of a plan, from the inside to the outside, and the node below them."""
    above, node = list[_Java](), plan
    while kind_of(node) in _ABOVE:
        above.insert(0, node)
        node = node.child()
    return above, node


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
