"""An analysed logical plan as frozen values: its nodes, and the expressions that checks need."""

from collections.abc import Iterator
from dataclasses import dataclass

INPUT = "Input"  # the kind of a step's input: a source, or the previous step
CLOCK_TEXT = "ClockText"  # the kind of a constant text that is a time of the clock, such as 'today'
DIMENSION = "Dimension"  # the kind of a table that sql joins by name; like INPUT, it has no children


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: `kind` is the simple name of Catalyst's class, `name` is its name in SQL, in lower case.

    An expression has no children here if it is deterministic and contains no clock, no subquery and no reference out of
    a subquery. `plan` is the plan of a subquery.
    """

    kind: str
    name: str
    is_deterministic: bool = True
    children: tuple["Expression", ...] = ()
    plan: "Node | None" = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan: `kind` is the simple name of Catalyst's class, or INPUT, which has no children.

    `name` is the name of an input, a view or a table, the type of a join (with ON for a lateral join with a condition),
    or an aggregate as a keyed step (grouped_sql.py). `is_streaming`: rows of an input come through this node.
    `expressions` has no expressions that are the same in every run, except generators.
    """

    kind: str
    name: str = ""
    is_streaming: bool = False
    expressions: tuple[Expression, ...] = ()
    children: tuple["Node", ...] = ()


def nodes_of(plan: Node) -> Iterator[Node]:
    """Yield all nodes of a plan from the top, without the nodes of subqueries.

    >>> [node.kind for node in nodes_of(Node("Project", children=(Node(INPUT),)))]
    ['Project', 'Input']
    """
    yield plan
    for child in plan.children:
        yield from nodes_of(child)


def expressions_of(node: Node) -> Iterator[Expression]:
    """Yield all expressions of one node, each before its children."""
    for expression in node.expressions:
        yield from _with_children(expression)


def subqueries_of(node: Node) -> Iterator[Node]:
    """Yield the plans of the subqueries in the expressions of one node."""
    for expression in expressions_of(node):
        if expression.plan is not None:
            yield expression.plan


def nodes_with_subqueries(plan: Node) -> Iterator[Node]:
    """Yield all nodes of a plan, and of the subqueries in it."""
    for node in nodes_of(plan):
        yield node
        for subquery in subqueries_of(node):
            yield from nodes_with_subqueries(subquery)


def _with_children(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children:
        yield from _with_children(child)
