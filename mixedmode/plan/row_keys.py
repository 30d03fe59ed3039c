"""The columns that identify a row of a join, from those that identify the rows of its inputs. Pure: no Spark.

Example: orders are identified by `id`, and totals by `customer`. In `orders JOIN totals ON orders.customer =
totals.customer`, each order has at most one partner, so `id` identifies a pair. In `orders JOIN depots ON orders.city =
depots.city`, an order may have several, so a pair is identified by its `id` and the key of the depot.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from mixedmode.operators.join import LEFT, RIGHT
from mixedmode.operators.join.layout import JoinType

__all__ = ["RowKey", "key_of_pairs"]

#: the names of columns that no two rows share; () if there is one row at most; None if no such columns are known
RowKey: TypeAlias = tuple[str, ...] | None

_Column = tuple[int, str]  # a side, and the name of one of its columns
_OTHER = {LEFT: RIGHT, RIGHT: LEFT}
#: the sides of which a join may emit a row without a partner
_ALONE: Mapping[JoinType, frozenset[int]] = {
    "inner": frozenset(),
    "left": frozenset({LEFT}),
    "right": frozenset({RIGHT}),
    "full": frozenset({LEFT, RIGHT}),
}


def key_of_pairs(
    kind: JoinType,
    equal: Sequence[tuple[pa.Field, pa.Field]],
    keys: tuple[RowKey, RowKey],
    selected: Sequence[tuple[str, int, str]],
) -> RowKey:
    """Return the columns of the result of a join that no two of its rows share.

    equal: the columns of the left and the right that are equal in a pair. keys: of the left and the right. selected:
    the columns of the result, each with its side and its name there.
    """
    if kind == "full":
        return None  # a row of the left and one of the right, both without a partner and with NULL as their key
    same = [(left.name, right.name) for left, right in equal if _are_one_value(left.type, right.type)]
    needed = _needed(kind, same, keys)
    if needed is None:
        return None
    shown = {(side, column): name for name, side, column in reversed(selected)}
    found = [_name_of(column, shown, same, kind) for column in needed]
    return None if None in found else tuple(dict.fromkeys(name for name in found if name is not None))


def _needed(kind: JoinType, same: Sequence[tuple[str, str]], keys: tuple[RowKey, RowKey]) -> list[_Column] | None:
    """Return the columns of both sides that identify a row of the result; None if they are not known."""
    own = [None if key is None else [(side, name) for name in key] for side, key in enumerate(keys)]
    if kind in ("semi", "anti"):
        return own[LEFT]
    for side in (LEFT, RIGHT):
        partner = keys[_OTHER[side]]
        has_one_partner = partner is not None and set(partner) <= {pair[_OTHER[side]] for pair in same}
        if has_one_partner and own[side] is not None and _ALONE[kind] <= {side}:
            return own[side]
    left, right = own
    return None if left is None or right is None else [*left, *right]


def _name_of(
    column: _Column, shown: Mapping[_Column, str], same: Sequence[tuple[str, str]], kind: JoinType
) -> str | None:
    """Return the name in the result of a column, or of one of the other side that has its value in each pair."""
    side, name = column
    if column in shown or _OTHER[side] not in _always_there(kind):
        return shown.get(column)
    others = [(_OTHER[side], pair[_OTHER[side]]) for pair in same if pair[side] == name]
    return next((shown[other] for other in others if other in shown), None)


def _always_there(kind: JoinType) -> frozenset[int]:
    """Return the sides of which each row of the result has a row."""
    if kind in ("semi", "anti"):
        return frozenset({LEFT})
    return frozenset(side for side in (LEFT, RIGHT) if not _ALONE[kind] - {side})


def _are_one_value(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether values of these types are equal only if they are the same.

    Texts '1' and '01' equal the number 1, and 0.0 equals -0.0.
    """
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return True
    return bool(left == right) and not pa.types.is_floating(left)
