"""Dates and times in UTC. A date is days, a timestamp is microseconds, both since 1970; years may be below 1."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.expressions.kernels import UTC, Kernel, Numbers, has_types, integers, is_literal, like
from mixedmode.expressions.values import Call, Literal, Node, Value

__all__ = ["DAY_US", "TIMES", "dates_as_text", "days_of"]

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_YEAR_DIGITS = 4
_UNITS_US = {"MINUTE": 60 * SECOND_US, "HOUR": 3_600 * SECOND_US, "DAY": DAY_US, "SECOND": SECOND_US}
#: letters of a pattern, from the smallest unit: (letters, microseconds)
_PARTS = (("ss", SECOND_US), ("mm", _UNITS_US["MINUTE"]), ("HH", _UNITS_US["HOUR"]))
_PATTERN = re.compile(r"(?:yyyy(?!y)|([MdHms])\1(?!\1)|[-/: .])+")  # MMMM is the name of a month
_LETTERS = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-/: .]")


def days_of(times: Value) -> Numbers:
    """Return the days (n,) int32 of timestamps."""
    return np.floor_divide(integers(times), DAY_US).astype(np.int32)


def dates_as_text(days: Numbers, *values: Value) -> pa.Array:
    """Return days as text, such as 2024-02-29; NULL where one of `values` is."""
    return _as_text(days.astype(np.int64), DAY_US, "yyyy-MM-dd", values)


def _format(_call: Call, given: Sequence[Value]) -> Value:
    times, pattern = given[0], given[1].as_py()
    unit_us = next((unit_us for letters, unit_us in _PARTS if letters in pattern), DAY_US)
    return _as_text(np.floor_divide(integers(times), unit_us), unit_us, pattern, (times,))


def _as_text(numbers: Numbers, unit_us: int, pattern: str, values: Sequence[Value]) -> pa.Array:
    """Return times as text. Rows share few days or minutes, so each distinct one is written once."""
    coded = like(numbers, pa.int64(), *values).dictionary_encode()
    texts = pa.array(_texts(integers(coded.dictionary), unit_us, pattern), pa.string())
    return texts.take(coded.indices)


def _texts(numbers: Numbers, unit_us: int, pattern: str) -> list[str]:
    per_day = DAY_US // unit_us
    days = np.floor_divide(numbers, per_day)
    seconds = (numbers - days * per_day) * (unit_us // SECOND_US)
    parts = {
        "yyyy": list(map(_year, _years(days).tolist())),
        "MM": _two(_months(days)),
        "dd": _two(_days_of_month(days)),
        "HH": _two(seconds // 3600),
        "mm": _two(seconds // 60 % 60),
        "ss": _two(seconds % 60),
    }
    pieces = [parts.get(piece, [piece] * len(numbers)) for piece in _LETTERS.findall(pattern)]
    return ["".join(row) for row in zip(*pieces, strict=True)]


def _years(days: Numbers) -> Numbers:
    """Return the years of days. Those of Arrow have 16 bits, so its months and days are wrong in other years, too."""
    years: Numbers = days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970
    return years


def _months(days: Numbers) -> Numbers:
    found: Numbers = np.mod(days.astype("M8[D]").astype("M8[M]").astype(np.int64), 12) + 1
    return found


def _days_of_month(days: Numbers) -> Numbers:
    dates = days.astype("M8[D]")
    found: Numbers = (dates - dates.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    return found


def _year(year: int) -> str:
    digits = str(abs(year)).zfill(_YEAR_DIGITS)
    return f"-{digits}" if year < 0 else f"+{digits}" if len(digits) > _YEAR_DIGITS else digits


def _two(numbers: Numbers) -> list[str]:
    return [f"{number:02d}" for number in numbers.tolist()]


def _accepts_format(call: Call, arguments: Sequence[Node]) -> bool:
    times, pattern = arguments
    is_known = isinstance(pattern, Literal) and isinstance(pattern.value, str) and _PATTERN.fullmatch(pattern.value)
    return call.options == (UTC,) and types.is_timestamp(times.data_type) and bool(is_known)


def _of_date(function: Callable[[Numbers], Numbers]) -> Kernel:
    """Return the kernel of a part of a date.  function: of days."""
    return Kernel(
        lambda _call, given: like(function(integers(given[0])).astype(np.int32), pa.int32(), given[0]),
        has_types(types.is_date32),
    )


def _of_time(unit_us: int, within_us: int) -> Kernel:
    """Return the kernel of hour, minute or second: whole units since the last multiple of `within_us`."""
    return Kernel(
        lambda _call, given: like(
            (np.mod(integers(given[0]), within_us) // unit_us).astype(np.int32), pa.int32(), given[0]
        ),
        lambda call, arguments: call.options == (UTC,) and bool(types.is_timestamp(arguments[0].data_type)),
    )


def _to_number(unit_us: int) -> Kernel:
    return Kernel(
        lambda call, given: like(np.floor_divide(integers(given[0]), unit_us), call.data_type, given[0]),
        has_types(types.is_timestamp),
    )


def _from_number(unit_us: int) -> Kernel:
    """Return the kernel of a time of a whole number of units since 1970."""

    def times(call: Call, given: Sequence[Value]) -> Value:
        numbers = like(integers(given[0]).astype(np.int64), pa.int64(), given[0])
        return pc.multiply_checked(numbers, pa.scalar(unit_us)).view(call.data_type)

    def raises(_call: Call, arguments: Sequence[Node]) -> bool:
        return unit_us > 1 and arguments[0].data_type == pa.int64()  # the times of narrower numbers do not overflow

    return Kernel(times, has_types(types.is_signed_integer), raises)


def _moved(call: Call, given: Sequence[Value]) -> Value:
    times = like(integers(given[0]).astype(np.int64), pa.int64(), given[0])
    return pc.add_checked(times, given[1].cast(pa.int64())).view(call.data_type)


def _accepts_moved(call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether a time is moved by a constant. Spark adds days by the calendar of the time zone."""
    times, interval = arguments
    if not isinstance(interval, Literal) or not isinstance(interval.value, int):
        return False
    is_of_calendar = abs(interval.value) >= DAY_US and call.options != (UTC,) and times.data_type.tz is not None
    return bool(types.is_timestamp(times.data_type)) and not is_of_calendar


def _truncate(call: Call, given: Sequence[Value]) -> Value:
    unit_us = _UNITS_US[given[0].as_py().upper()]
    units = like(np.floor_divide(integers(given[1]), unit_us), pa.int64(), given[1])
    return pc.multiply_checked(units, pa.scalar(unit_us)).view(call.data_type)  # the least times overflow


def _accepts_truncate(call: Call, arguments: Sequence[Node]) -> bool:
    unit = arguments[0]
    known = is_literal(unit) and isinstance(unit, Literal) and str(unit.value).upper() in _UNITS_US
    return call.options == (UTC,) and known and types.is_timestamp(arguments[1].data_type)


TIMES: Mapping[str, Kernel] = {
    "DateFormatClass": Kernel(_format, _accepts_format),
    "MicrosToTimestamp": _from_number(1),
    "MillisToTimestamp": _from_number(1000),
    "SecondsToTimestamp": _from_number(SECOND_US),
    "TimestampAddInterval": Kernel(_moved, _accepts_moved, lambda _call, _arguments: True),
    "UnixMicros": _to_number(1),
    "UnixMillis": _to_number(1000),
    "UnixSeconds": _to_number(SECOND_US),
    "Year": _of_date(_years),
    "Month": _of_date(_months),
    "DayOfMonth": _of_date(_days_of_month),
    "Hour": _of_time(_UNITS_US["HOUR"], DAY_US),
    "Minute": _of_time(_UNITS_US["MINUTE"], _UNITS_US["HOUR"]),
    "Second": _of_time(SECOND_US, _UNITS_US["MINUTE"]),
    "TruncTimestamp": Kernel(_truncate, _accepts_truncate, lambda _call, _arguments: True, column=1),
}
