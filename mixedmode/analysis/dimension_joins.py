"""Reads in Spark's analysed plan how rows are joined with a dimension: by which keys, and by what else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixedmode.analysis.catalyst_conditions import compared, conjuncts
from mixedmode.analysis.catalyst_objects import items_of, kind_of, view_name

__all__ = ["DimensionJoin", "dimension_join", "dimension_name", "is_in_dimension"]

_Java = Any  # an object of the JVM

_UNARY = ("SubqueryAlias", "View", "Project", "Filter")
#: {type of a join: what it is with the dimension on the right}, for a dimension on the right, and for one on the left
_ON_THE_RIGHT = {"Inner": "Inner", "Cross": "Inner"} | {kind: kind for kind in ("LeftOuter", "LeftSemi", "LeftAnti")}
_ON_THE_LEFT = {"Inner": "Inner", "Cross": "Inner", "RightOuter": "LeftOuter"}


@dataclass(frozen=True, slots=True)
class DimensionJoin:
    """A join of `rows` with a dimension, both plans.

    `type`: Inner, LeftOuter, LeftSemi or LeftAnti, with the rows on the left. `dimension`: its name. `keys`: pairs of
    expressions that are equal, of the rows and of the dimension. `of_table`: conditions of the dimension alone. `rest`:
    all other conditions.
    """

    type: str
    rows: _Java
    table: _Java
    dimension: str
    keys: Sequence[tuple[_Java, _Java]]
    of_table: Sequence[_Java] = ()
    rest: Sequence[_Java] = ()

    @property
    def is_set(self) -> bool:
        """Return whether it only matters if a row has a match, not which one."""
        return self.type in ("LeftSemi", "LeftAnti") and not self.rest


def dimension_join(plan: _Java, dimensions: Mapping[str, str], above: Sequence[_Java]) -> DimensionJoin | None:
    """Return a join of rows with a dimension; None if it is another join.

    dimensions: {name in lower case: name}. above: conditions of a filter over the join, which an inner join has, too.
    """
    left, right, types = plan.left(), plan.right(), _ON_THE_RIGHT
    if dimension_name(right, dimensions) is None:
        left, right, types = right, left, _ON_THE_LEFT
    kind, name = types.get(str(plan.joinType().toString())), dimension_name(right, dimensions)
    if kind is None or name is None:
        return None
    conditions = list(conjuncts(plan.condition().get())) if plan.condition().isDefined() else []
    conditions = [*above, *conditions] if kind == "Inner" else conditions  # in the order in which Spark checks them
    keys, of_table, rest = [], [], []
    of_left, of_right = left.outputSet(), right.outputSet()
    for condition in conditions:
        uses = condition.references()
        if uses.nonEmpty() and uses.subsetOf(of_right):
            of_table.append(condition)
            continue
        found = compared(condition, of_left, of_right)
        if found is None or found[0] != "EqualTo":
            rest.append(condition)
        else:
            keys.append(found[1])
    return DimensionJoin(kind, left, right, dimensions[name], keys, of_table, rest)


def is_in_dimension(condition: _Java, dimensions: Mapping[str, str]) -> DimensionJoin | None:
    """Return the join that the condition `values IN (SELECT columns FROM dimension)` is; None if it is another one.

    In a filter, rows without a match and those with a NULL among the values do not pass.
    """
    if kind_of(condition) != "InSubquery" or condition.query().isCorrelated():
        return None
    table = condition.query().plan()
    name = dimension_name(table, dimensions)
    if name is None:
        return None
    values, columns = items_of(condition.values()), items_of(table.output())
    return DimensionJoin("LeftSemi", None, table, dimensions[name], list(zip(values, columns, strict=True)))


def dimension_name(plan: _Java, dimensions: Collection[str]) -> str | None:
    """Return the dimension, in lower case, of which a plan makes rows one by one; None if it is another plan."""
    kind = kind_of(plan)
    if kind == "View" and plan.isTempView():
        name = view_name(plan).lower()
        if name in dimensions:
            return name
    if kind not in _UNARY:
        return None
    (child,) = items_of(plan.children())
    return dimension_name(child, dimensions)
