"""Compares the analysed plan of a text with the plan that the text was written for.

What a Project computes is put in the place of its columns, so plans are the same if their other nodes are, one by one,
with the same expressions over the same columns below. Names of columns in between do not count. Above a join or a
union, its columns stand for themselves: what is computed below an outer join is not the same as above it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import columns_of, id_of, ids_of, items_of, kind_of, view_name
from mixedmode.analysis.catalyst_texts import TextLostError, is_same, projected, replaced, value_of

__all__ = ["PASSED", "SamePlans", "TextInput", "children_of"]

_Java = Any  # an object of the JVM
_Values = Mapping[int, _Java]

#: nodes that change no row
PASSED = frozenset(
    {
        "EventTimeWatermark",
        "PipeOperator",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "View",
    }
)


@dataclass(frozen=True, slots=True)
class TextInput:
    """An input of a text.

    name: that in the text. node: the node of the given plan that has its rows. columns: its columns, and their names in
    the text. values: the value of each over the columns of `node`.
    """

    name: str
    node: _Java
    columns: Sequence[tuple[_Java, str]]
    values: Sequence[_Java]

    @classmethod
    def of_columns(cls, name: str, node: _Java, columns: Sequence[tuple[_Java, str]]) -> Self:
        """Return an input whose columns are those of the node."""
        return cls(name, node, columns, [column for column, _ in columns])


@dataclass(frozen=True, slots=True)
class SamePlans:
    """The comparison of a plan that was written with the plan that was given.  inputs: those of the written one."""

    session: SparkSession
    inputs: Sequence[TextInput]

    def check(self, written: _Java, given: _Java) -> None:
        """Raise TextLostError, with the place, if the two return other rows; names of columns do not count."""
        ours, theirs = self._values(written, given)
        self._same(items_of(written.output()), items_of(given.output()), ours, theirs)

    def _values(self, written: _Java, given: _Java) -> tuple[_Values, _Values]:
        """Return {id: value} of the columns of each plan, over columns of the given one; a column that is not in it is
        its own value.
        """
        above, written = _below(written, self._read)
        above_given, given = _below(given, self._given)
        ours, theirs = self._of_node(written, given)
        for project in reversed(above):
            ours = projected(self.session, project, ours)
        for project in reversed(above_given):
            theirs = projected(self.session, project, theirs)
        return ours, theirs

    def _read(self, plan: _Java) -> TextInput | None:
        """Return an input under the name that a node of the written plan reads; None if it is another node."""
        return next(iter(self._named(plan)), None)

    def _named(self, plan: _Java) -> list[TextInput]:
        """Return the inputs with the name that a node reads: a text may read one several times."""
        name = view_name(plan) if kind_of(plan) == "View" else None
        return [one for one in self.inputs if one.name == name]

    def _given(self, plan: _Java) -> TextInput | None:
        """Return the input that a node of the given plan is; None if it is none."""
        return next((one for one in self.inputs if plan.equals(one.node)), None)

    def _of_node(self, written: _Java, given: _Java) -> tuple[_Values, _Values]:
        found = next((one for one in self._named(written) if given.equals(one.node)), None)
        if found is not None:
            values = dict(zip((name for _, name in found.columns), found.values, strict=True))
            return {number: values[name] for name, number in columns_of(written.output()) if name in values}, {}
        kind = kind_of(written)
        if kind != kind_of(given) or kind not in _PARTS:
            raise TextLostError(kind_of(given))
        ours, theirs = self._of_children(kind, written, given)
        self._same(_PARTS[kind](written), _PARTS[kind](given), ours, theirs)
        if any(read(written) != read(given) for read in _FACTS.get(kind, ())):
            raise TextLostError(kind)
        made = zip(_MADE[kind](written), _MADE[kind](given), strict=True)
        new = {id_of(one): other for one, other in made}
        return (new, {}) if kind in _NEW else ({**ours, **new}, theirs)

    def _of_children(self, kind: str, written: _Java, given: _Java) -> tuple[_Values, _Values]:
        """Return the values of the columns of the input of two nodes, or of both inputs of a join."""
        if kind not in _SEVERAL:
            return self._values(written.child(), given.child())
        ours = dict[int, _Java]()
        for one, other in zip(children_of(written), children_of(given), strict=True):
            self.check(one, other)
            ours |= zip(ids_of(one.output()), items_of(other.output()), strict=True)
        return ours, {}

    def _same(self, ours: Iterable[_Java], theirs: Iterable[_Java], of_ours: _Values, of_theirs: _Values) -> None:
        one_by_one = [list(ours), list(theirs)]
        if len(one_by_one[0]) != len(one_by_one[1]):
            raise TextLostError(", ".join(str(one.sql()) for one in one_by_one[1]))
        for one, other in zip(*one_by_one, strict=True):
            wanted = replaced(self.session, other, of_theirs)
            found = replaced(self.session, one, of_ours)
            # without what a field knows besides, such as its watermark
            has_type = found.dataType().catalogString() == wanted.dataType().catalogString()
            if not has_type or not is_same(self.session, found, wanted):
                raise TextLostError(str(other.sql()))


def _below(plan: _Java, input_of: Callable[[_Java], TextInput | None]) -> tuple[list[_Java], _Java]:
    """Return the projections on top of a plan, outermost first, and the node below them."""
    found = []
    while input_of(plan) is None and (kind := kind_of(plan)) in {"Project", *PASSED}:
        found += [plan] if kind == "Project" else []
        plan = plan.child()
    return found, plan


def children_of(node: _Java) -> Iterator[_Java]:
    """Yield the inputs of a join, or those of a union and of the unions that it is made of."""
    kind = kind_of(node)
    for child in items_of(node.children()):
        if kind == "Union" and kind_of(child) == "Union":
            yield from children_of(child)
        else:
            yield child


def _of_aggregate(node: _Java) -> list[_Java]:
    return [*items_of(node.groupingExpressions()), *map(value_of, items_of(node.aggregateExpressions()))]


def _of_expand(node: _Java) -> list[_Java]:
    """Return the first and the last window of a row; Spark makes them, and those in between follow from the two.

    Raise TextLostError if another column is not passed on as it is.
    """
    rows, new = list(items_of(node.projections())), set(map(id_of, _new_columns(node)))
    found = []
    for row in (rows[0], rows[-1]):
        for value, (_, number) in zip(items_of(row), columns_of(node.output()), strict=True):
            if number in new:
                found.append(value)
            elif kind_of(value) != "AttributeReference" or id_of(value) != number:
                raise TextLostError(str(value.sql()))
    return found


def _new_columns(node: _Java) -> list[_Java]:
    """Return the columns of a node that its input does not have."""
    before = set(ids_of(node.child().output()))
    return [one for one in items_of(node.output()) if id_of(one) not in before]


#: {kind of node: function that returns its expressions}
_PARTS: Mapping[str, Callable[[_Java], list[_Java]]] = {
    "Aggregate": _of_aggregate,
    "Expand": _of_expand,
    "Filter": lambda node: [node.condition()],
    "Generate": lambda node: [node.generator()],
    "Join": lambda node: [node.condition().get()] if node.condition().isDefined() else [],
    "Union": lambda _: [],
}
#: {kind of node: functions that return what else it says}
_FACTS: Mapping[str, tuple[Callable[[_Java], object], ...]] = {
    "Expand": (lambda node: node.projections().size(),),
    "Generate": (lambda node: node.outer(),),
    "Join": (lambda node: str(node.joinType().toString()),),
    "Union": (lambda node: len(list(children_of(node))),),
}
#: {kind of node: function that returns its new columns}
_MADE: Mapping[str, Callable[[_Java], list[_Java]]] = {
    "Filter": lambda _: [],
    "Aggregate": lambda node: [one.toAttribute() for one in items_of(node.aggregateExpressions())],
    "Expand": _new_columns,
    "Generate": lambda node: list(items_of(node.generatorOutput())),
    "Join": lambda _: [],
    "Union": lambda node: list(items_of(node.output())),
}
_SEVERAL = frozenset({"Join", "Union"})  # nodes with several inputs
_NEW = frozenset({"Aggregate", "Union"})  # nodes of which only new columns can be read
