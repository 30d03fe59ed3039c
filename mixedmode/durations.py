"""Durations: text in a job file or in Python, milliseconds in the program.

Names of variables and fields that hold a duration end in the unit (`*_ms`).

Invariants (tests/config/test_values.py):
  I1  parse_duration_ms(format_duration_ms(x)) == x
  I2  any other spelling than the documented ones is refused, never guessed
"""

import re

from mixedmode.errors import InvalidJobError

#: {unit: milliseconds}, largest first; a compound duration must use this order
DURATION_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
DURATION_MS_MAX = 2**62 // 1000  # as far as times of windows: the sum of a time and a duration is int64 microseconds

_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in DURATION_UNITS_MS))


def parse_duration_ms(value: object) -> int:
    """Return the milliseconds of `500ms`, `1s`, `10m`, `1h`, `2d`, `1h30m` (largest unit first, each once) or a bare 0.

    A number without a unit is refused, because seconds and milliseconds are equally likely to be meant.
    Raises InvalidJobError with the accepted forms.

    >>> parse_duration_ms("1h30m")
    5400000
    """
    if (value == 0 and type(value) is int) or value == "0":
        return 0
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or match.lastindex is None:
        msg = (
            "this is not a duration. Write whole numbers with their units, largest unit first, such as "
            f"500ms, 1s, 10m, 1h, 2d or 1h30m, or a bare 0. found={value}"
        )
        raise InvalidJobError(msg)
    units = DURATION_UNITS_MS.values()
    duration_ms = sum(count_of(digits) * unit for digits, unit in zip(match.groups(), units, strict=True))
    if duration_ms > DURATION_MS_MAX:
        msg = f"this duration is longer than event times can express. Write at most {DURATION_MS_MAX}ms. found={value}"
        raise InvalidJobError(msg)
    return duration_ms


def format_duration_ms(duration_ms: int) -> str:
    """Return the shortest text from which parse_duration_ms reads the same number; `0s` for 0."""
    parts = []
    rest = duration_ms
    for unit, unit_ms in DURATION_UNITS_MS.items():
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def count_of(digits: str | None) -> int:
    """Return the number that the digits write; 0 for no digits.

    Python refuses to read integers of thousands of digits. Only the first 30 digits are read: such a number exceeds
    every limit here already.
    """
    return int((digits or "0").lstrip("0")[:30] or "0")
