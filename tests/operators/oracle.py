"""Aggregates recomputed in plain Python, with exact fractions, SQL's rules for NULL and Spark's order of doubles."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pyarrow as pa

from tests.operators.arguments import decimal_of


@dataclass(frozen=True, slots=True)
class Record:
    """One row's argument and event time; `weight` is how often the row is there."""

    value: Any
    time_us: int = 0
    weight: int = 1


def order_of(value: Any) -> tuple[Any, ...]:
    """Sorts values as Spark does: NULL first, NaN last, strings by UTF-8 bytes; -0.0 before 0.0, so without ties.

    Maps, which have no order in Spark, are arrays of their entries.
    """
    if value is None:
        return (0,)
    if isinstance(value, dict | list | tuple):
        return (1, tuple(order_of(part) for part in (value.values() if isinstance(value, dict) else value)))
    if isinstance(value, float):
        return (1, 1) if math.isnan(value) else (1, 0, value, math.copysign(1.0, value))
    return (1, value.encode() if isinstance(value, str) else value)


def aggregate(function: str, records: Sequence[Record], data_type: pa.DataType) -> Any:
    """The result of `function` over a group: an int, float, Decimal, ... as Arrow's `as_py` gives it."""
    if function in _OVER_TIME:
        return _OVER_TIME[function](records)
    seen = [record.value for record in records if record.value is not None for _ in range(record.weight)]
    if function == "count":
        return len(seen)
    return _OVER_VALUES[function](seen, data_type) if seen else None


def _first(records: Sequence[Record]) -> Any:
    return min(records, key=lambda r: (r.time_us, order_of(r.value))).value


def _last(records: Sequence[Record]) -> Any:
    return max(records, key=lambda r: (r.time_us, order_of(r.value))).value


def _sum(seen: list[Any], data_type: pa.DataType) -> Any:
    if pa.types.is_decimal(data_type):
        return decimal_of(int(sum(map(Fraction, seen)) * 10**data_type.scale), data_type.scale)
    return _float_sum(seen) if pa.types.is_floating(data_type) else sum(seen)


def _avg(seen: list[Any], data_type: pa.DataType) -> Any:
    if pa.types.is_floating(data_type):
        return _float_sum(seen) / len(seen)
    mean = sum(map(Fraction, seen)) / len(seen)
    if not pa.types.is_decimal(data_type):
        return float(mean)
    scale = min(38, data_type.scale + 4)
    return decimal_of(_half_up(mean * 10**scale), scale)


def _half_up(number: Fraction) -> int:
    rounded = math.floor(abs(number) + Fraction(1, 2))
    return rounded if number >= 0 else -rounded


def _float_sum(seen: list[float]) -> float:
    special = sum(x for x in seen if not math.isfinite(x))
    return math.fsum(x for x in seen if math.isfinite(x)) + special


def _variance(seen: list[Any], *, sample: bool) -> float | None:
    if len(seen) < 1 + sample:
        return None
    if not all(math.isfinite(x) for x in seen):
        return math.nan
    numbers = list(map(Fraction, seen))
    mean = sum(numbers) / len(numbers)
    return float(sum((x - mean) ** 2 for x in numbers) / (len(numbers) - sample))


def _deviation(seen: list[Any], *, sample: bool) -> float | None:
    variance = _variance(seen, sample=sample)
    return None if variance is None else math.sqrt(variance)


def _median(seen: list[Any]) -> float:
    ordered = sorted(seen, key=order_of)
    position = (len(ordered) - 1) * 0.5
    low, high = (float(ordered[rank]) for rank in (math.floor(position), math.ceil(position)))
    return low if low == high else low + (position - math.floor(position)) * (high - low)


def _once(seen: list[Any]) -> list[Any]:
    """Each value once; all NaN are one value, and so are the zeros."""
    return list({order_of(_normal(x)): x for x in seen}.values())


def _mode(seen: list[Any], pick: Callable[..., Any]) -> Any:
    """The value with the most rows; of ties the one that `pick` takes of their order."""
    rows: dict[Any, list[Any]] = {}
    for value in map(_normal, seen):
        rows.setdefault(order_of(value), []).append(value)
    most = max(map(len, rows.values()))
    return rows[pick(order for order, values in rows.items() if len(values) == most)][0]


def _normal(value: Any) -> Any:
    """The value with 0.0 in place of -0.0, also inside of it."""
    if isinstance(value, dict):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(_normal, value))
    return value + 0.0 if isinstance(value, float) else value


_OVER_TIME: dict[str, Callable[[Sequence[Record]], Any]] = {"first": _first, "last": _last}
_OVER_VALUES: dict[str, Callable[[list[Any], pa.DataType], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "sum_distinct": lambda seen, data_type: _sum(_once(seen), data_type),
    "avg_distinct": lambda seen, data_type: _avg(_once(seen), data_type),
    "min": lambda seen, _: min(seen, key=order_of),
    "max": lambda seen, _: max(seen, key=order_of),
    "var_pop": lambda seen, _: _variance(seen, sample=False),
    "var_samp": lambda seen, _: _variance(seen, sample=True),
    "stddev_pop": lambda seen, _: _deviation(seen, sample=False),
    "stddev_samp": lambda seen, _: _deviation(seen, sample=True),
    "median": lambda seen, _: _median(seen),
    "mode": lambda seen, _: _mode(seen, min),
    "mode_descending": lambda seen, _: _mode(seen, max),
    "bit_and": lambda seen, _: reduce(and_, seen),
    "bit_or": lambda seen, _: reduce(or_, seen),
    "bit_xor": lambda seen, _: reduce(xor, seen),
    "bool_and": lambda seen, _: all(seen),
    "bool_or": lambda seen, _: any(seen),
}
FUNCTIONS = ("count", *_OVER_TIME, *_OVER_VALUES)


def identical(found: Any, expected: Any) -> bool:
    """Equal to the last bit: NaN is NaN, and the sign of zero counts."""
    return order_of(found) == order_of(expected)


def tolerance(function: str, records: Sequence[Record]) -> float:
    """Return how far rounding may take a double from the exact result; 0 for exact results."""
    numbers = [float(r.value) for r in records if r.value is not None for _ in range(r.weight)]
    finite = [abs(x) for x in numbers if math.isfinite(x)]
    largest = max(finite, default=0.0)
    if function.startswith(("sum", "avg")):
        return 1e-15 * len(finite) * sum(finite)
    if function == "median":
        return 1e-15 * largest  # decimals become doubles
    spread = _deviation(finite and numbers, sample=False) if len(finite) == len(numbers) else None
    near = 1e-13 * largest  # what is left of two values that are almost equal
    if function.startswith("stddev"):
        return 1e-12 * (spread or 0.0) + 4 * near
    return 1e-11 * ((spread or 0.0) ** 2 + (spread or 0.0) * largest) + 4 * near**2


def close(found: Any, expected: Any, *, within: float) -> bool:
    """As `identical`, but doubles may be `within` of each other."""
    if not (isinstance(found, float) and isinstance(expected, float)):
        return found is None and expected is None
    if not (math.isfinite(found) and math.isfinite(expected)):
        return identical(found, expected)
    return abs(found - expected) <= within
