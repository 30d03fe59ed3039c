"""The windows of an aggregate in an analysed plan, as the calls of window() and session_window() that made them.

Spark replaces such a call by arithmetic, and the durations are the constants in it. A text with the call that is found
here is read back by Spark, so a mistake is an error, and never another window.
"""

from collections.abc import Iterator
from typing import Any

from mixedmode.analysis.catalyst_aggregates import Aggregated, Windowed, windows_of
from mixedmode.analysis.catalyst_objects import id_of, ids_of, items_of, kind_of
from mixedmode.analysis.catalyst_texts import TextLostError, value_of
from mixedmode.analysis.plan_text import WindowCall

__all__ = ["window_call"]

_Java = Any  # an object of the JVM

#: {unit of a duration in SQL: its microseconds}, largest first
_UNITS_US = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}


def window_call(aggregated: Aggregated) -> tuple[WindowCall, Windowed] | None:
    """Return the call that made the windows of an aggregate, and the windows; None if it has none.

    Raise TextLostError if the time is no column, and for a session whose gap is no constant.
    """
    found = windows_of(aggregated)
    if found is None:
        return None
    start, end = _bounds(aggregated.child, found)
    time, is_inner = (found.time, False) if found.inner is None else (found.inner, True)
    if any(kind_of(one) == "Remainder" for one in _inside(start)):
        return WindowCall(found.key, "window", time, _durations(start, end), is_inner), found
    return WindowCall(found.key, "session_window", time, (_gap(end),), is_inner), found


def _bounds(plan: _Java, windowed: Windowed) -> tuple[_Java, _Java]:
    """Return the expressions of the start and of the end of the first window of a row.  plan: above the windows."""
    while not plan.equals(windowed.child):
        values = []
        if kind_of(plan) == "Project":
            values = [value_of(one) for one in items_of(plan.projectList()) if id_of(one) == windowed.key]
        elif kind_of(plan) == "Expand":
            values = [plan.projections().head().apply(ids_of(plan.output()).index(windowed.key))]
        if values:
            _, start, _, end = items_of(values[0].children())
            return start, end
        plan = plan.child()
    raise TextLostError(str(windowed.time.sql()))


def _durations(start: _Java, end: _Java) -> tuple[str, ...]:
    """Return size, slide and offset, as far as window() needs them."""
    remainder = next(one for one in _inside(start) if kind_of(one) == "Remainder")
    added = next(one for one in _inside(end) if kind_of(one) == "Add")
    size, slide, offset = (int(one.right().eval(None)) for one in (added, remainder, remainder.left()))
    texts = [_text(size)] if size == slide and not offset else [_text(size), _text(slide)]
    return (*texts, _text(offset)) if offset else tuple(texts)


def _gap(end: _Java) -> str:
    gaps = [one.child() for one in _inside(end) if kind_of(one) == "Cast" and one.dataType().typeName() == "interval"]
    if len(gaps) != 1 or kind_of(gaps[0]) != "Literal":
        raise TextLostError(str(end.sql()))
    return str(gaps[0].eval(None).toString())


def _text(duration_us: int) -> str:
    """Return a duration as SQL reads it.

    >>> _text(5_400_000_000), _text(1_000_000)
    ('90 minutes', '1 second')
    """
    unit, unit_us = next((unit, unit_us) for unit, unit_us in _UNITS_US.items() if duration_us % unit_us == 0)
    number = duration_us // unit_us
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _inside(expression: _Java) -> Iterator[_Java]:
    """Yield an expression and all in it, outermost first."""
    yield expression
    for child in items_of(expression.children()):
        yield from _inside(child)
