"""Tells from bounds of columns that no row of a part of a file passes the filters of a query. Pure.

An expression is evaluated with sets in place of values: an interval that holds all values of a column, and the truths
(True, False, None for NULL) that a condition may have. Both may be too large, never too small. So bounds may be cut
short, as those of long texts are, and a condition that is not known here may have every truth.

    Example: a column has values from 3 to 7 and no NULL. `v > 9` may be {False}, `v > 5` may be {True, False}.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pyarrow import types

from mixedmode.expressions.calls import QueryCalls
from mixedmode.expressions.evaluate import raising_nodes
from mixedmode.expressions.times import DAY_US
from mixedmode.expressions.values import Call, Column, Literal, Node, Query

__all__ = ["Bounds", "may_pass"]

_Edge = Any  # a whole number or bytes, as the type of the column says, or None; only edges of one type are compared
_Truth = bool | None
_Truths = frozenset[_Truth]
_ANY: _Truths = frozenset({True, False, None})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the values of a column in some rows. Text is bytes, a time is whole days or microseconds.

    `least`, `greatest`: None if unknown. `has_null`: False if no row is NULL. `has_value`: False if all are.
    """

    least: _Edge = None
    greatest: _Edge = None
    has_null: bool = True
    has_value: bool = True

    @property
    def is_known(self) -> bool:
        """Return whether both bounds are known."""
        return self.least is not None and self.greatest is not None


_UNKNOWN = Bounds()


def may_pass(query: Query, columns: Mapping[str, Bounds]) -> bool:
    """Return whether a row may pass all filters of a query, or a filter may raise an error for one.

    columns: bounds by name; nothing is known of the other columns.
    """
    raising, truths = raising_nodes(query.nodes), _truths(query.nodes, columns)
    with_calls = QueryCalls.of(query).filters  # a function may raise an error
    for number in query.filters:
        if raising[number] or number in with_calls:
            return True
        if True not in truths[number]:
            return False
    return True


def _truths(nodes: Sequence[Node], columns: Mapping[str, Bounds]) -> list[_Truths]:
    """Return the truths that each node may have, if it is a condition."""
    truths: list[_Truths] = []
    bounds: list[Bounds] = []
    for node in nodes:
        truth, bound = _ANY, _UNKNOWN
        match node:
            case Column():
                bound = columns.get(node.name, _UNKNOWN)
            case Literal(value=bool() | None as value):
                truth, bound = frozenset({value}), Bounds(has_value=value is not None)
            case Literal():
                bound = _of_literal(node)
            case Call(kind="Cast"):
                bound = _converted(bounds[node.arguments[0]], nodes[node.arguments[0]], node)
            case Call() if node.kind in _LOGIC:
                sides = product(*(truths[number] for number in node.arguments))
                truth = frozenset(_LOGIC[node.kind](*side) for side in sides)
            case Call() if node.kind in _TESTS:
                truth = _TESTS[node.kind](*(bounds[number] for number in node.arguments))
        truths.append(truth)
        bounds.append(bound)
    return truths


def _of_literal(literal: Literal) -> Bounds:
    value, data_type = literal.value, literal.data_type
    if isinstance(value, str) and types.is_string(data_type):
        value = value.encode()
    exact = (types.is_signed_integer, types.is_date32, types.is_timestamp, types.is_string, types.is_binary)
    if not any(one(data_type) for one in exact):
        return Bounds(has_null=False)
    return Bounds(value, value, has_null=False)


def _converted(found: Bounds, before: Node, cast: Call) -> Bounds:
    """Return the bounds after a cast. It keeps the order of values, and NULL."""
    old, new = before.data_type, cast.data_type
    same = types.is_signed_integer(old) and types.is_signed_integer(new) and old.bit_width <= new.bit_width
    if same or (types.is_timestamp(old) and types.is_timestamp(new)):
        return found
    unknown = replace(found, least=None, greatest=None)
    if types.is_timestamp(old) and types.is_date32(new) and found.is_known:
        return replace(found, least=found.least // DAY_US, greatest=found.greatest // DAY_US)
    return unknown


def _and(left: _Truth, right: _Truth) -> _Truth:
    return False if False in (left, right) else None if None in (left, right) else True


def _or(left: _Truth, right: _Truth) -> _Truth:
    return True if True in (left, right) else None if None in (left, right) else False


def _not(one: _Truth) -> _Truth:
    return None if one is None else not one


def _comparison(is_possible: Callable[[Bounds, Bounds], bool], is_certain: Callable[[Bounds, Bounds], bool]) -> "_Test":
    """Return the test of a comparison.

    is_possible, is_certain: whether it is true for some pair, or for every pair, of values within known bounds.
    """

    def test(left: Bounds, right: Bounds) -> _Truths:
        truths: set[_Truth] = {None} if left.has_null or right.has_null else set()
        if left.has_value and right.has_value:
            is_known = left.is_known and right.is_known
            truths |= {True} if not is_known or is_possible(left, right) else set()
            truths |= {False} if not is_known or not is_certain(left, right) else set()
        return frozenset(truths)

    return test


def _swapped(test: "_Test") -> "_Test":
    return lambda left, right: test(right, left)


def _is_in(value: Bounds, *options: Bounds) -> _Truths:
    found: _Truths = frozenset({False})
    for option in options:
        found = frozenset(_or(*pair) for pair in product(found, _EQUAL(value, option)))
    return found


def _is_null(value: Bounds) -> _Truths:
    return frozenset(truth for truth, may_be in ((True, value.has_null), (False, value.has_value)) if may_be)


_Test = Callable[..., _Truths]
_EQUAL = _comparison(
    lambda left, right: left.least <= right.greatest and right.least <= left.greatest,
    lambda left, right: left.least == left.greatest == right.least == right.greatest,
)
_LESS = _comparison(lambda left, right: left.least < right.greatest, lambda left, right: left.greatest < right.least)
_LESS_OR_EQUAL = _comparison(
    lambda left, right: left.least <= right.greatest, lambda left, right: left.greatest <= right.least
)
_LOGIC: Mapping[str, Callable[..., _Truth]] = {"And": _and, "Or": _or, "Not": _not}
_TESTS: Mapping[str, _Test] = {
    "EqualTo": _EQUAL,
    "LessThan": _LESS,
    "LessThanOrEqual": _LESS_OR_EQUAL,
    "GreaterThan": _swapped(_LESS),
    "GreaterThanOrEqual": _swapped(_LESS_OR_EQUAL),
    "In": _is_in,
    "IsNull": _is_null,
    "IsNotNull": lambda value: frozenset(not one for one in _is_null(value)),
}
