"""Puts the conditions of a query in the order in which Spark checks them, where functions of the job are called.

Spark checks conditions without calls first. Its optimiser also takes such conditions out of others: x > 0 out of
`CASE WHEN x > 0 THEN f(x) > 1 END`, of `NOT (x <= 0 OR f(x) > 1)`, and of `x > 0 AND f(x) > 1 OR x > 0 AND y > 1`. It
then calls f for fewer rows; it leaves f out of `y > 1 AND (y > 1 OR f(x) > 1)`. So calls are computed here only below
comparisons and the like, and below AND and OR of these that have no part in common.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from mixedmode.analysis.called_functions import NotCalledError
from mixedmode.expressions import FUNCTION_CALL, Call, Literal, Node, Query, called_nodes

__all__ = ["in_order"]


def in_order(query: Query) -> Query:
    """Return the query with its conditions in the order in which Spark checks them: calls of functions come last.

    Raise NotCalledError if the optimiser may have an order of its own for them.
    """
    called = called_nodes(query.nodes)
    with_calls = {number for number in query.filters if called[number]}
    shapes = _Shapes(query.nodes, called)
    if not all(map(shapes.is_kept, with_calls)) or shapes.have_part_in_common("Or", query.filters, with_calls):
        msg = "the optimiser of Spark may take apart a condition in which CASE, NOT, AND or OR is around a call"
        raise NotCalledError(msg)
    of_filters = frozenset[int]().union(*(called[number] for number in with_calls))
    calls = [node for number in of_filters if isinstance(node := query.nodes[number], Call)]
    kinds = {call.options for call in calls}
    is_nested = any(called[argument] for call in calls for argument in call.arguments)
    if len(with_calls) > 1 and (len(kinds) > 1 or is_nested):
        msg = "several conditions call functions of different kinds, or a function with the result of another one"
        raise NotCalledError(msg)
    return replace(query, filters=tuple(sorted(query.filters, key=lambda number: number in with_calls)))


class _Shapes:
    """The forms of conditions.  called: for each node, the calls that it is made of."""

    def __init__(self, nodes: Sequence[Node], called: Sequence[frozenset[int]]) -> None:
        self._nodes = nodes
        self._called = called

    def is_kept(self, number: int) -> bool:
        """Return whether the optimiser takes no condition without a call out of this one."""
        node = self._nodes[number]
        if not (isinstance(node, Call) and node.kind in ("And", "Or")):
            return self._is_plain(number)
        other = "Or" if node.kind == "And" else "And"
        return not self.have_part_in_common(other, node.arguments) and all(map(self.is_kept, node.arguments))

    def have_part_in_common(self, kind: str, numbers: Iterable[int], of: Container[int] | None = None) -> bool:
        """Return whether two conditions are made by AND, or by OR, of parts one of which is the same.

        of: one of the two is among these.
        """
        parts = [(number, self._parts(kind, number)) for number in numbers]
        return any(
            one & other and (of is None or left in of or right in of)
            for (left, one), (right, other) in combinations(parts, 2)
        )

    def _parts(self, kind: str, number: int) -> set[int]:
        """Return the conditions that AND, or OR, combines."""
        node = self._nodes[number]
        if isinstance(node, Call) and node.kind == kind:
            return set[int]().union(*(self._parts(kind, argument) for argument in node.arguments))
        return {number}

    def _is_plain(self, number: int) -> bool:
        """Return whether no logic is around the calls of a node, but for `coalesce(f(x), 5)`."""
        node = self._nodes[number]
        if not (isinstance(node, Call) and self._called[number]) or node.kind == FUNCTION_CALL:
            return True
        if node.kind == "If":
            values = [self._nodes[one] for one in node.arguments[1:]]
            is_of_calls = all(isinstance(one, Literal) or _is_call(one) for one in values)
            return bool(self._called[node.arguments[0]]) and is_of_calls and self._is_plain(node.arguments[0])
        return node.kind not in ("And", "Or") and all(map(self._is_plain, node.arguments))


def _is_call(node: Node) -> bool:
    return isinstance(node, Call) and node.kind == FUNCTION_CALL
