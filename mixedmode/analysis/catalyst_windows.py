"""The windows in a GROUP BY, as the settings of a keyed step: window() and session_window() of Spark's SQL."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import items_of, kind_of
from mixedmode.durations import format_duration_ms
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import REFUSALS
from mixedmode.spark.java_classes import java_class

__all__ = ["window_settings"]

_Java = Any  # an object of the JVM
_FUNCTIONS = ("window", "session_window")


def window_settings(session: SparkSession, sql: str, where: str) -> dict[str, dict[str, str]]:
    """Return the setting `window` for the only window in a text. Raise InvalidJobError, beginning with `where`, if
    there are several, or if a keyed step has no such windows.
    """
    parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    calls = {str(call.sql()): call for call in _calls(parsed)}
    if len(calls) != 1:
        msg = f"{where}: a GROUP BY has one window. Write one step for each. windows={', '.join(sorted(calls))}"
        raise InvalidJobError(msg)
    ((text, call),) = calls.items()
    arguments = list(items_of(call.arguments()))
    window = java_class(session.sparkContext, "org.apache.spark.sql.catalyst.expressions.TimeWindow")
    try:
        times = window(*arguments)  # it reads the durations
    except REFUSALS as error:
        msg = (
            f"{where}: the durations of a window are constants here, such as '10 minutes'. Write them so. found={text}"
        )
        raise InvalidJobError(msg) from error
    read = (times.windowDuration(), times.slideDuration(), times.startTime())
    size_us, slide_us, start_us = map(int, read)
    if start_us < 0 or any(duration_us % 1000 for duration_us in (size_us, slide_us, start_us)):
        msg = f"{where}: windows last whole milliseconds, and begin at 0 or later. Change the durations. found={text}"
        raise InvalidJobError(msg)
    size, slide, offset = (format_duration_ms(duration_us // 1000) for duration_us in (size_us, slide_us, start_us))
    if call.nameParts().last().lower() == "session_window":
        return {"session": {"gap": size}}
    shift = {"offset": offset} if start_us else {}
    if size == slide:
        return {"tumbling": {"size": size, **shift}}
    return {"sliding": {"size": size, "slide": slide, **shift}}


def _calls(plan: _Java) -> Iterator[_Java]:
    """Yield the calls of window functions in a plan that is not yet analysed."""
    for expression in items_of(plan.expressions()):
        yield from _calls_in(expression)
    for child in items_of(plan.children()):
        yield from _calls(child)


def _calls_in(expression: _Java) -> Iterator[_Java]:
    if kind_of(expression) == "UnresolvedFunction" and str(expression.nameParts().last()).lower() in _FUNCTIONS:
        yield expression
    for child in items_of(expression.children()):
        yield from _calls_in(child)
