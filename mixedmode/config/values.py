"""Durations and sizes: the text a person writes, and the one integer a program computes with.

A duration becomes milliseconds and a size becomes bytes; the unit is part of the name of whatever holds them (`*_ms`,
`*_bytes`). Sizes count in powers of two in every spelling, as Spark's do: 1 KB = 1 KiB = 1024 bytes and
1 MB = 1 MiB = 1024 * 1024 bytes.

Invariants (tests/config/test_values.py):
  I1  parse_duration_ms(format_duration_ms(x)) == x and parse_bytes(format_bytes(x)) == x
  I2  what is not one of the documented spellings is refused, never guessed
"""

import re

from mixedmode.errors import InvalidJobError

#: unit: milliseconds; largest first, the order in which a compound duration must give them
DURATION_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
#: unit: bytes; largest first
SIZE_UNITS_BYTES = {"TB": 1024**4, "GB": 1024**3, "MB": 1024**2, "KB": 1024, "B": 1}
DURATION_MS_MAX = (2**63 - 1) // 1000  # event times are int64 microseconds, and a duration is added to them
SIZE_BYTES_MAX = 2**63 - 1

_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in DURATION_UNITS_MS))
_SIZE = re.compile(r"([0-9]+)(?:([KMGT])I?B|([KMGT])|B)?", re.IGNORECASE)


def parse_duration_ms(value: object) -> int:
    """Milliseconds of `500ms`, `1s`, `10m`, `1h`, `2d`, `1h30m` (largest unit first, each once) or a bare 0.

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
    duration_ms = sum(_count(digits) * unit for digits, unit in zip(match.groups(), units, strict=True))
    if duration_ms > DURATION_MS_MAX:
        msg = f"this duration is longer than event times can express. Write at most {DURATION_MS_MAX}ms. found={value}"
        raise InvalidJobError(msg)
    return duration_ms


def parse_bytes(value: object) -> int:
    """Bytes of `256MB`, `64KiB`, `4g` (units B, KB, MB, GB, TB, in any case) or of a plain whole number.

    Every spelling is a power of two: KB, KiB and K are 1024 bytes, MB, MiB and M are 1024 * 1024 bytes.
    Raises InvalidJobError with the accepted forms.

    >>> parse_bytes("64KiB")
    65536
    """
    match = _SIZE.fullmatch(str(value)) if isinstance(value, str) or type(value) is int else None
    if match is None:
        msg = (
            "this is not a size. Write a whole number of bytes, or one with a unit, such as 64KB, 256MB or 4GB "
            f"(1 MB is 1024 * 1024 bytes; MiB and M mean the same). found={value}"
        )
        raise InvalidJobError(msg)
    unit = (match[2] or match[3] or "").upper() + "B"
    size_bytes = _count(match[1]) * SIZE_UNITS_BYTES[unit]
    if size_bytes > SIZE_BYTES_MAX:
        msg = f"this size is more than 64 bits can count. Write at most {SIZE_BYTES_MAX}. found={value}"
        raise InvalidJobError(msg)
    return size_bytes


def format_duration_ms(duration_ms: int) -> str:
    """The shortest text that parse_duration_ms reads back to the same number; `0s` for none."""
    parts = []
    rest = duration_ms
    for unit, unit_ms in DURATION_UNITS_MS.items():
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_bytes(size_bytes: int) -> str:
    """The size in the largest unit that divides it, so that parse_bytes reads back the same number."""
    for unit, unit_bytes in SIZE_UNITS_BYTES.items():
        if size_bytes >= unit_bytes and size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return "0B"


def _count(digits: str | None) -> int:
    """Python refuses to read integers of thousands of digits; 30 digits are past every limit here already."""
    return int((digits or "0").lstrip("0")[:30] or "0")
