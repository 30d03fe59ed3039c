"""Calls of the job's own functions, which Spark computes before all else that a condition or a column is made of.

Spark evaluates a filter or the columns in two steps: first the calls in them, for every row that reaches them, also
where CASE, AND or COALESCE needs no value of the call; then the rest. A condition without a call is checked before any
call, wherever it stands.

    Example: WHERE f(a) > 1 AND b > 0, CASE WHEN c > 0 THEN g(10 % c) END
    f is called for the rows with b > 0; g, and 10 % c, are computed for all of these with f(a) > 1, also where c = 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixedmode.expressions.kernels import Kernel
from mixedmode.expressions.values import Call, Node, Query, Value, arguments_of

__all__ = ["CALLS", "FUNCTION_CALL", "QueryCalls", "called_nodes"]

#: the kind of a call of one of the job's functions
FUNCTION_CALL = "PythonUDF"


def called_nodes(nodes: Sequence[Node]) -> list[frozenset[int]]:
    """Return for each node the numbers of the calls of functions that it is made of, itself included."""
    found: list[frozenset[int]] = []
    for number, node in enumerate(nodes):
        of_node = frozenset[int]().union(*(found[argument] for argument in arguments_of(node)))
        is_call = isinstance(node, Call) and node.function is not None
        found.append(of_node | {number} if is_call else of_node)
    return found


@dataclass(frozen=True, slots=True)
class QueryCalls:
    """The calls of a query, by the numbers of their nodes, arguments before the calls that take them.

    `filters`: the conditions with a call. `of_filters`, `of_columns`: the calls in conditions, and in columns.
    """

    filters: frozenset[int]
    of_filters: tuple[int, ...]
    of_columns: tuple[int, ...]

    @property
    def has_any(self) -> bool:
        """Return whether the query calls a function."""
        return bool(self.of_filters or self.of_columns)

    @classmethod
    def of(cls, query: Query) -> "QueryCalls":
        """Return the calls of a query."""
        called = called_nodes(query.nodes)
        of_filters = frozenset[int]().union(*(called[number] for number in query.filters))
        of_columns = frozenset[int]().union(*(called[number] for _, number in query.columns))
        return cls(
            frozenset(number for number in query.filters if called[number]),
            tuple(sorted(of_filters)),
            tuple(sorted(of_columns)),
        )


def _call(call: Call, given: Sequence[Value]) -> Value:
    assert call.function is not None, call
    return call.function(given)


def _accepts(call: Call, arguments: Sequence[Node]) -> bool:
    return call.function is not None and len(arguments) > 0


CALLS: Mapping[str, Kernel] = {FUNCTION_CALL: Kernel(_call, _accepts, takes_null=True)}
