"""Keyed aggregates recomputed in plain Python: no numpy, no Arrow, no Spark, nothing shared with the engine.

Keep every value of a key in a list, and compute each answer from the list in the most direct way there
is, with Python's own integers, decimals and exact sums of doubles. Where doubles leave room in the last bits, the
answer is an `Approx` that says how much.

Rules: SQL's for NULL (passed over by every function but count(*), first and last; min_by and max_by pass over rows in
which the value to order by is NULL); NaN is one value and the greatest double, and both zeros are one value of a set;
first and last go by (event time, value) with NULL as the smallest value, a list by (event time, value) without NULL.
Sketches are exact for the few rows that a random case has.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from operator import and_, or_, xor
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
class Where:
    """The condition of a filter, as SQL and as what it says of a row; None is not true."""

    sql: str
    holds: Callable[[Row], bool | None]


@dataclass(frozen=True)
class Call:
    """One aggregate: `argument` is a column, None for count(*); `scale` the decimal places of a decimal average.

    `by` is the column that min_by and max_by order by; `number` is the limit of a list, or the share of a percentile.
    """

    function: str
    argument: str | None = None
    scale: int | None = None
    by: str | None = None
    number: float = 0
    where: Where | None = None


def canonical(value: Any) -> Any:
    """A value that Python's == and hash group as Spark does: one NaN, one zero, and no bool that equals an int."""
    if isinstance(value, list):
        return tuple(map(canonical, value))
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
    """Return the differences of two tables as readable lines; [] when they are equal."""
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
    if call.where is not None:
        members = [row for row in members if call.where.holds(row)]
    argument = call.argument
    if argument is None:
        return len(members)
    if call.function in {"first", "last"}:
        assert event_time is not None
        return _edge(members, event_time, argument, min if call.function == "first" else max)
    if call.function in _OF_PAIRS:
        assert call.by is not None
        pairs = [(row[argument], row[call.by]) for row in members if None not in (row[argument], row[call.by])]
        return _pair_answer(call, pairs)
    if call.by is not None:
        known = [row for row in members if row[call.by] is not None]
        return _edge(known, call.by, argument, min if call.function == "min_by" else max)
    present = [row for row in members if row[argument] is not None]
    if call.function == "collect_list":  # by value alone where there is no event time
        present = sorted(present, key=lambda row: (row[event_time] if event_time else 0, _order(row[argument])))
    seen = [row[argument] for row in present]
    if call.function in _OF_NOTHING:
        return _OF_NOTHING[call.function](seen, call)
    return _FUNCTIONS[call.function](seen, call) if seen else None


def _edge(members: Sequence[Row], by: str, argument: str, pick: Callable[..., Row]) -> Any:
    if not members:
        return None
    return pick(members, key=lambda row: (_order(row[by]), _nullable_order(row[argument])))[argument]


def _distinct(values: list[Any], call: Call) -> list[Any]:
    return sorted({canonical(value): value for value in values}.values(), key=_order)


def _mode(values: list[Any], pick: Callable[..., Any]) -> Any:
    rows = Counter(map(canonical, values))
    most = max(rows.values())
    return pick((value for value in values if rows[canonical(value)] == most), key=_order)


def _percentile(values: list[Any], call: Call) -> Any:
    return sorted(values, key=_order)[max(math.ceil(len(values) * call.number), 1) - 1]


def _exact_percentile(values: list[Any], call: Call) -> Any:
    ordered = sorted(values, key=_order)
    position = (len(ordered) - 1) * call.number
    below, above = math.floor(position), math.ceil(position)
    low, high = float(ordered[below]), float(ordered[above])
    between = low if low == high or below == above else low + (position - below) * (high - low)
    return Approx(between, _ULPS * max(abs(low), abs(high)) if math.isfinite(low) and math.isfinite(high) else 0.0)


def _pair_answer(call: Call, pairs: list[tuple[Any, Any]]) -> Any:
    y, x = [float(pair[0]) for pair in pairs], [float(pair[1]) for pair in pairs]
    if call.function == "regr_count" or not pairs:
        return len(pairs) if call.function == "regr_count" else None
    if call.function != "covar_pop":
        return _avg(x if call.function == "regr_avgx" else y, call)
    if not all(map(math.isfinite, y + x)):
        return Approx(math.nan, 0.0)
    mean_y, mean_x = math.fsum(y) / len(y), math.fsum(x) / len(x)
    products = math.fsum((a - mean_y) * (b - mean_x) for a, b in zip(y, x, strict=True))
    return Approx(products / len(y), _ULPS * max(map(abs, y)) * max(map(abs, x)) + _UNDERFLOW)


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


#: functions of the rows in which two columns are not NULL
_OF_PAIRS = frozenset({"regr_count", "regr_avgx", "regr_avgy", "covar_pop"})
#: functions that are not NULL without a value
_OF_NOTHING: Mapping[str, Callable[[list[Any], Call], Any]] = {
    "count": lambda values, _: len(values),
    "count_if": lambda values, _: sum(values),
    "count_distinct": lambda values, call: len(_distinct(values, call)),
    "approx_count_distinct": lambda values, call: len(_distinct(values, call)),
    "collect_list": lambda values, call: values[: int(call.number)],
    "collect_set": lambda values, call: _distinct(values, call)[: int(call.number)],
}
_FUNCTIONS: Mapping[str, Callable[[list[Any], Call], Any]] = {
    "approx_percentile": _percentile,
    "percentile": _exact_percentile,
    "percentile_disc": lambda values, call: float(_percentile(values, call)),
    "bit_and": lambda values, _: reduce(and_, values),
    "bit_or": lambda values, _: reduce(or_, values),
    "bit_xor": lambda values, _: reduce(xor, values),
    "sum": _sum,
    "avg": _avg,
    "mode": lambda values, _: _mode(values, min),
    "mode_descending": lambda values, _: _mode(values, max),
    "sum_distinct": lambda values, call: _sum(_distinct(values, call), call),
    "avg_distinct": lambda values, call: _avg(_distinct(values, call), call),
    "min": _smallest,
    "max": _largest,
    "var_pop": _variance,
    "var_samp": _variance,
    "stddev_pop": _variance,
    "stddev_samp": _variance,
    "bool_and": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
}
