"""The columns of an `over` step in plain Python: for each row, its frame is listed and the function goes through it."""

import math
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from mixedmode.config.over_calls import OverCall
from tests.operators.oracle import order_of

Row = Mapping[str, Any]
Order = Callable[[Row], Any]


def computed(rows: Sequence[Row], calls: Mapping[str, OverCall], key: Sequence[str], order: Order) -> list[Row]:
    """Return rows with the columns of calls, key by key.  order: of which equal values make peers."""
    found = list[Row]()
    keys = {tuple(row[name] for name in key): None for row in rows}
    for one in keys:
        own = [row for row in rows if tuple(row[name] for name in key) == one]
        own.sort(key=lambda row: (order(row), [order_of(value) for value in row.values()]))
        for at, row in enumerate(own):
            values = {name: _value(call, own, at, order) for name, call in calls.items()}
            found.append({**row, **values})
    return found


def _value(call: OverCall, rows: Sequence[Row], at: int, order: Order) -> Any:
    orders = [order(row) for row in rows]
    if call.function == "row_number":
        return at + 1
    if call.function == "rank":
        return orders.index(orders[at]) + 1
    if call.function == "dense_rank":
        return sum(one != orders[number - 1] or number == 0 for number, one in enumerate(orders[: at + 1]))
    if call.function == "lag":
        default = None if call.default is None else literal_eval(call.default)
        return rows[at - call.last][_name(call)] if at >= call.last else default
    first = 0 if call.first is None else max(0, at - call.first)
    end = at - call.last + 1
    if call.has_peers:
        end = max(number for number, one in enumerate(orders) if one == orders[at]) + 1
    if call.span_ms is not None:
        first = next(number for number, row in enumerate(rows) if row["t"] >= rows[at]["t"] - 1000 * call.span_ms)
    frame = rows[first : max(first, end)]
    if call.argument is None:
        return len(frame)
    values = [row[_name(call)] for row in frame]
    seen = [value for value in values if value is not None]
    if call.function in ("first_value", "last_value"):
        own = seen if call.ignores_nulls else values
        return own[0 if call.function == "first_value" else -1] if own else None
    return _FUNCTIONS[call.function](seen)


def _name(call: OverCall) -> str:
    assert call.argument is not None
    return call.argument


def _sum(seen: Sequence[Any]) -> Any:
    total = 0.0 if seen and isinstance(seen[0], float) else 0
    for value in seen:
        total += value
    return total if seen else None


def _mean(seen: Sequence[Any]) -> Any:
    if seen and isinstance(seen[0], Decimal):  # of scale 2
        return (sum(seen) / len(seen)).quantize(Decimal("1e-6"), ROUND_HALF_UP)
    total = 0.0
    for value in seen:
        total += value
    return total / len(seen) if seen else None


def _least(seen: Sequence[Any]) -> Any:
    return min(map(_without_sign, seen), key=order_of, default=None)


def _greatest(seen: Sequence[Any]) -> Any:
    return max(map(_without_sign, seen), key=order_of, default=None)


def _without_sign(value: Any) -> Any:
    """Return 0.0 for -0.0: the least of both is not told apart."""
    return value + 0.0 if isinstance(value, float) and not math.isnan(value) else value


_FUNCTIONS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": _sum,
    "avg": _mean,
    "min": _least,
    "max": _greatest,
}
