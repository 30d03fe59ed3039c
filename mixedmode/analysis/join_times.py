"""Reads in conditions of a join how far the event times of its two sides may be from each other.

Example: of `p.at BETWEEN o.at AND o.at + INTERVAL 4 HOURS`, the bounds of p.at - o.at are 0 and 4 hours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_conditions import TURNED
from mixedmode.analysis.catalyst_objects import id_of, kind_of
from mixedmode.analysis.time_zones import moves_clocks, offsets_apart_us
from mixedmode.config.fields import SPAN_MS_MAX

__all__ = ["Bound", "bound_of", "within"]

_Java = Any  # an object of the JVM
_WITHOUT_ZONE = "TimestampNTZType$"
_TIMES = frozenset({"TimestampType$", _WITHOUT_ZONE})
_STRICT = frozenset({"GreaterThan", "LessThan"})
#: comparisons of a distance with its least value, and with its greatest
_LEAST = frozenset({"EqualTo", "GreaterThan", "GreaterThanOrEqual"})
_GREATEST = frozenset(TURNED[one] for one in _LEAST)
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of the time of the right minus that of the left.

    columns: the names of the two. least_ms, greatest_ms: the bounds, both included, rounded outwards. is_exact: the
    condition says no more than the bounds.
    """

    columns: tuple[str, str]
    least_ms: int | None
    greatest_ms: int | None
    is_exact: bool


def within(bounds: Sequence[Bound]) -> tuple[int, int] | None:
    """Return the least and the greatest distance, in milliseconds, that all bounds let pass.

    None if there is no least or no greatest one, or if no distance passes.
    """
    least = max((one.least_ms for one in bounds if one.least_ms is not None), default=None)
    greatest = min((one.greatest_ms for one in bounds if one.greatest_ms is not None), default=None)
    if least is None or greatest is None or least > greatest or max(abs(least), abs(greatest)) > SPAN_MS_MAX:
        return None
    return least, greatest


def bound_of(
    session: SparkSession,
    comparison: str,
    values: tuple[_Java, _Java],
    names: tuple[Mapping[int, str], Mapping[int, str]],
) -> Bound | None:
    """Return the bound that `value of the left, comparison, value of the right` is; None if it is none.

    names: {id: name} of the columns of each side.
    """
    left, right = (_moved(one) for one in values)
    if left is None or right is None or kind_of(values[0].dataType()) != kind_of(values[1].dataType()):
        return None
    of_distance = TURNED[comparison]  # left + a <= right + b means: right - left >= a - b
    distance_us = left[1] - right[1]
    slack_us = _slack_us(session, values[0], max(abs(left[1]), abs(right[1])))
    return Bound(
        (names[0][left[0]], names[1][right[0]]),
        (distance_us - slack_us) // 1000 if of_distance in _LEAST else None,
        -((-distance_us - slack_us) // 1000) if of_distance in _GREATEST else None,
        is_exact=not slack_us and distance_us % 1000 == 0 and comparison not in _STRICT,
    )


def _moved(value: _Java) -> tuple[int, int] | None:
    """Return (id of the column, microseconds) of a column of timestamps that is moved by a constant interval."""
    kind = kind_of(value)
    if kind_of(value.dataType()) not in _TIMES:
        return None
    if kind == "AttributeReference":
        return id_of(value), 0
    if kind == "Cast" and kind_of(value.child().dataType()) == kind_of(value.dataType()):
        return _moved(value.child())
    if kind == "DatetimeSub":
        return _moved(value.replacement())
    if kind != "TimestampAddInterval":
        return None
    start, interval = _moved(value.start()), value.interval()
    if start is None or kind_of(interval.dataType()) != "DayTimeIntervalType" or not interval.foldable():
        return None
    added_us = interval.eval(None)
    return None if added_us is None else (start[0], start[1] + int(added_us))


def _slack_us(session: SparkSession, value: _Java, moved_us: int) -> int:
    """Return by how much the distance of two event times may differ from what Spark compares.

    value: one of the times. moved_us: the longest interval that is added to one.
    """
    if kind_of(value.dataType()) == _WITHOUT_ZONE:
        return offsets_apart_us(session)  # Spark compares local times
    # Spark adds days by the calendar of the time zone, in which a day may last longer
    return _DAY_US if moved_us >= _DAY_US and moves_clocks(session) else 0
