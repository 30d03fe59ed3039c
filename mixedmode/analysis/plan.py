"""An analysed logical plan as frozen values: nodes, and those of their expressions that a check may have to look at."""

from collections.abc import Iterator
from dataclasses import dataclass

INPUT = "Input"  # the kind of what a step reads: a source, or the step before it


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: `kind` is the simple name of Catalyst's class, `name` is what SQL calls it, in lower case.

    Children are left out below an expression that always has the same value for the same record, and in which there is
    no clock, no subquery and no reference out of a subquery. `plan` is that of a subquery.
    """

    kind: str
    name: str
    is_deterministic: bool = True
    children: tuple["Expression", ...] = ()
    plan: "Node | None" = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan: `kind` is the simple name of Catalyst's class, or INPUT, which has no children.

    `name` is that of an input, a view or a table, or the type of a join (with ON for a lateral one that has a
    condition). `is_streaming` says that rows of an input come
    through this node. `expressions` leaves out those that are the same in every run, but for generators.
    """

    kind: str
    name: str = ""
    is_streaming: bool = False
    expressions: tuple[Expression, ...] = ()
    children: tuple["Node", ...] = ()


def nodes_of(plan: Node) -> Iterator[Node]:
    """All nodes of a plan from the top, without those of subqueries.

    >>> [node.kind for node in nodes_of(Node("Project", children=(Node(INPUT),)))]
    ['Project', 'Input']
    """
    yield plan
    for child in plan.children:
        yield from nodes_of(child)


def expressions_of(node: Node) -> Iterator[Expression]:
    """All expressions of one node, each before those that it is made of."""
    for expression in node.expressions:
        yield from _with_children(expression)


def subqueries_of(node: Node) -> Iterator[Node]:
    """The plans of the subqueries in the expressions of one node."""
    for expression in expressions_of(node):
        if expression.plan is not None:
            yield expression.plan


def nodes_with_subqueries(plan: Node) -> Iterator[Node]:
    """All nodes of a plan, and of the subqueries in it."""
    for node in nodes_of(plan):
        yield node
        for subquery in subqueries_of(node):
            yield from nodes_with_subqueries(subquery)


def _with_children(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children:
        yield from _with_children(child)
