"""Keyed aggregates recomputed in plain Python: no numpy, no Arrow, no Spark, nothing shared with the engine.

The one idea: keep every value of a key in a list, and compute each answer from the list in the most direct way there
is, with Python's own integers, decimals and exact sums of doubles. Where doubles leave room in the last bits, the
answer is an `Approx` that says how much.

Rules: SQL's for NULL (passed over by every function but count(*), first and last); NaN is one value and the greatest
double; first and last go by (event time, value) with NULL as the smallest value.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

Row = Mapping[str, Any]
Table = dict[tuple[Any, ...], dict[str, Any]]  # {key: {column: value}}, keys as `canonical` makes them

_EXACT = Context(prec=100)
_ULPS = 1e-12  # of the largest number that took part; a few thousand additions stay far below
_UNDERFLOW = 1e-300  # squares of numbers below 1e-150 come near the smallest double, and lose digits


@dataclass(frozen=True)
class Approx:
    """A double that may differ in its last bits."""

    value: float
    within: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float):
            return False
        if math.isnan(self.value) or math.isnan(other):
            return math.isnan(self.value) and math.isnan(other)
        return self.value == other or abs(self.value - other) <= self.within

    __hash__ = None  # type: ignore[assignment]  # equality is not transitive


@dataclass(frozen=True)
class Call:
    """One aggregate: `argument` is a column, None for count(*); `scale` the decimal places of a decimal average."""

    function: str
    argument: str | None = None
    scale: int | None = None


def canonical(value: Any) -> Any:
    """A value that Python's == and hash group as Spark does: one NaN, one zero, and no bool that equals an int."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, bool):
        return f"bool {value}"
    return value


def aggregate(
    rows: Iterable[Row], key_by: Sequence[str], calls: Mapping[str, Call], *, event_time: str | None = None
) -> Table:
    """The table that a keyed step gives: key columns and results by key."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row, key_by), []).append(row)
    table: Table = {}
    for key, members in groups.items():
        results = {name: _answer(call, members, event_time) for name, call in calls.items()}
        table[key] = {**{name: members[0][name] for name in key_by}, **results}
    return table


def key_of(row: Row, key_by: Sequence[str]) -> tuple[Any, ...]:
    """A row's key."""
    return tuple(canonical(row[name]) for name in key_by)


def keyed(rows: Iterable[Row], key_by: Sequence[str]) -> Table:
    """Rows as a table. Every key must be there once."""
    table: Table = {}
    for row in rows:
        key = key_of(row, key_by)
        assert key not in table, f"two rows for key {key}: {table[key]} and {dict(row)}"
        table[key] = dict(row)
    return table


def differences(expected: Table, found: Table) -> list[str]:
    """What is not the same in two tables, as readable lines; [] when they are equal."""
    lines = [f"missing {key}: {expected[key]}" for key in expected.keys() - found.keys()]
    lines += [f"not expected {key}: {found[key]}" for key in found.keys() - expected.keys()]
    for key in expected.keys() & found.keys():
        wanted, got = expected[key], found[key]
        if wanted.keys() != got.keys():
            lines.append(f"{key}: columns are {list(got)}, expected {list(wanted)}")
            continue
        lines += [
            f"{key}: {name} is {got[name]!r}, expected {wanted[name]!r}"
            for name in wanted
            if not same(wanted[name], got[name])
        ]
    return lines


def same(expected: Any, found: Any) -> bool:
    """Equal in type and value; NaN is NaN, and an Approx allows for rounding."""
    if isinstance(expected, Approx):
        return bool(expected == found)
    return type(expected) is type(found) and bool(canonical(expected) == canonical(found))


def _answer(call: Call, members: Sequence[Row], event_time: str | None) -> Any:
    if call.argument is None:
        return len(members)
    values = [row[call.argument] for row in members]
    if call.function in {"first", "last"}:
        assert event_time is not None
        pick = min if call.function == "first" else max
        return _edge(members, event_time, call.argument, pick)
    seen = [value for value in values if value is not None]
    if call.function == "count":
        return len(seen)
    if not seen:
        return None
    return _FUNCTIONS[call.function](seen, call)


def _edge(members: Sequence[Row], event_time: str, argument: str, pick: Callable[..., Row]) -> Any:
    return pick(members, key=lambda row: (row[event_time], _nullable_order(row[argument])))[argument]


def _sum(values: list[Any], call: Call) -> Any:
    if isinstance(values[0], float):
        return Approx(_float_sum(values), _ULPS * _magnitude(values))
    if isinstance(values[0], Decimal):
        return _decimal_sum(values)
    return sum(values)


def _avg(values: list[Any], call: Call) -> Any:
    if isinstance(values[0], float):
        return Approx(_float_sum(values) / len(values), _ULPS * _magnitude(values))
    if isinstance(values[0], Decimal):
        assert call.scale is not None
        mean = _EXACT.divide(_decimal_sum(values), Decimal(len(values)))
        return mean.quantize(Decimal(1).scaleb(-call.scale), ROUND_HALF_UP, _EXACT)
    mean = sum(values) / len(values)  # of two Python integers: rounded once, whatever their size
    return Approx(mean, _ULPS * abs(mean))


def _smallest(values: list[Any], call: Call) -> Any:
    return min(values, key=_order)


def _largest(values: list[Any], call: Call) -> Any:
    return max(values, key=_order)


def _variance(values: list[Any], call: Call) -> Any:
    is_sample, is_root = call.function.endswith("_samp"), call.function.startswith("stddev")
    divisor = len(values) - 1 if is_sample else len(values)
    if divisor == 0:
        return None
    numbers = [float(value) for value in values]
    if not all(math.isfinite(number) for number in numbers):
        return Approx(math.nan, 0.0)
    mean = math.fsum(numbers) / len(numbers)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / divisor
    within = _ULPS * max(abs(number) for number in numbers) ** 2 + _UNDERFLOW
    if not is_root:
        return Approx(variance, within)
    return Approx(math.sqrt(variance), math.sqrt(within))


def _float_sum(values: list[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _magnitude(values: list[float]) -> float:
    finite = [abs(value) for value in values if math.isfinite(value)]
    return math.fsum(finite)


def _decimal_sum(values: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def _order(value: Any) -> Any:
    """A sort key in Spark's order: NaN above every number, text by code point as its UTF-8 is."""
    return (math.isnan(value), value) if isinstance(value, float) else value


def _nullable_order(value: Any) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, _order(value))


_FUNCTIONS: Mapping[str, Callable[[list[Any], Call], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _smallest,
    "max": _largest,
    "var_pop": _variance,
    "var_samp": _variance,
    "stddev_pop": _variance,
    "stddev_samp": _variance,
    "bool_and": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
}
