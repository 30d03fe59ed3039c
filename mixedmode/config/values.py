"""Sizes: text in a job file or in Python, an integer of bytes in the program.

Names of variables and fields that hold a size end in the unit (`*_bytes`). Every spelling counts in powers of two, as
Spark does: 1 KB = 1 KiB = 1024 bytes and 1 MB = 1 MiB = 1024 * 1024 bytes.

Invariants (tests/config/test_values.py):
  I1  parse_bytes(format_bytes(x)) == x
  I2  any other spelling than the documented ones is refused, never guessed
"""

import re

from mixedmode.durations import count_of
from mixedmode.errors import InvalidJobError

#: {unit: bytes}, largest first
SIZE_UNITS_BYTES = {"TB": 1024**4, "GB": 1024**3, "MB": 1024**2, "KB": 1024, "B": 1}
SIZE_BYTES_MAX = 2**63 - 1

_SIZE = re.compile(r"([0-9]+)(?:([KMGT])I?B|([KMGT])|B)?", re.IGNORECASE)


def parse_bytes(value: object) -> int:
    """Return the bytes of `256MB`, `64KiB`, `4g` (units B, KB, MB, GB, TB, in any case) or of a plain whole number.

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
    size_bytes = count_of(match[1]) * SIZE_UNITS_BYTES[unit]
    if size_bytes > SIZE_BYTES_MAX:
        msg = f"this size is more than 64 bits can count. Write at most {SIZE_BYTES_MAX}. found={value}"
        raise InvalidJobError(msg)
    return size_bytes


def format_bytes(size_bytes: int) -> str:
    """Return the size in the largest unit that divides it, so that parse_bytes reads the same number again."""
    for unit, unit_bytes in SIZE_UNITS_BYTES.items():
        if size_bytes >= unit_bytes and size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return "0B"
