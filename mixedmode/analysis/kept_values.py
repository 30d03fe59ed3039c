"""The number of values of a collect_list or collect_set that a text reads: slice(collect_list(x), 1, 9) reads 9."""

from collections.abc import Iterable, Iterator
from typing import Any

from mixedmode.analysis.catalyst_objects import id_of, items_of, kind_of

__all__ = ["kept_values"]

_Java = Any  # an object of the JVM


def kept_values(expressions: Iterable[_Java], call: int, *, is_set: bool) -> int | None:
    """Return the number of values at the beginning of the array that expressions read; None if they may read all.

    call: the id of the column that is the array. is_set: its values are in their order, so sort_array changes nothing.
    """
    reads = [one for expression in expressions for one in _reads(expression, call, is_set=is_set)]
    return max((one for one in reads if one is not None), default=None) if None not in reads else None


def _reads(expression: _Java, call: int, *, is_set: bool) -> Iterator[int | None]:
    """Yield the end of each slice of the array; None where it is read as a whole."""
    if kind_of(expression) == "Slice":
        array, start, length = items_of(expression.children())
        if is_set and kind_of(array) == "SortArray":
            array, ascending = items_of(array.children())
            array = array if _literal(ascending) is True else expression
        first, count = _literal(start), _literal(length)
        if _is_column(array, call) and isinstance(first, int) and isinstance(count, int) and min(first, count) > 0:
            yield first + count - 1
            return
    if _is_column(expression, call):
        yield None
    for child in items_of(expression.children()):
        yield from _reads(child, call, is_set=is_set)


def _is_column(expression: _Java, number: int) -> bool:
    return kind_of(expression) == "AttributeReference" and id_of(expression) == number


def _literal(expression: _Java) -> object:
    return expression.value() if kind_of(expression) == "Literal" else None
