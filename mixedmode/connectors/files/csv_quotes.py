"""Quotes and escapes in a block of CSV: whether Arrow cuts its lines into the values of Spark's reader.

Both agree where quotes are around whole values, and where within these an escape is before a quote or an escape.
Otherwise, Arrow removes an escape before any character and outside of quotes, and a quote that does not end takes the
following lines with it.

Invariants (tests/sources/test_csv_drift.py, tests/sources/test_lines_on_arrow.py):
  I1  Arrow returns the values of Spark's reader for a block that is understood
"""

import re

import numpy as np
import numpy.typing as npt

__all__ = ["are_around_values", "is_understood", "odd_quotes", "without_escaped"]

_LINE_END = b"\n"[0]
_LINE_ENDS = tuple(b"\n\r")


def are_around_values(
    block: bytes, quote: int, separator: int, *, is_multiline: bool = False, are_doubled: bool = False
) -> bool:
    """Return whether each quote in a block of lines begins or ends a value, or is doubled within one.

    For example, `"a","b ""c"" d"` has only such quotes if `are_doubled`.
    """
    found = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(found == quote)
    opens, closes = quotes[::2], quotes[1::2]
    around = np.concatenate([[_LINE_END], found, [_LINE_END]])
    beside = (separator, *_LINE_ENDS, *((quote,) if are_doubled else ()))
    is_plain = len(opens) == len(closes) and all(
        np.isin(around[places], beside).all() for places in (opens, closes + 2)
    )
    return is_plain and (is_multiline or _are_within_lines(found, opens, closes))


def _are_within_lines(found: npt.NDArray[np.uint8], opens: npt.NDArray[np.intp], closes: npt.NDArray[np.intp]) -> bool:
    ends = np.flatnonzero(found == _LINE_END)
    return bool((np.searchsorted(ends, opens) == np.searchsorted(ends, closes)).all())


def without_escaped(block: bytes, quote: bytes, escape: bytes) -> bytes:
    """Return a block with other bytes in place of each escaped quote and escape; a doubled quote is none."""
    return block if quote == escape else _escaped(quote, escape).sub(b"xx", block)


def odd_quotes(block: bytes, quote: bytes, escape: bytes) -> bool:
    """Return whether a block of CSV ends within quotes, or goes on with what begins within quotes."""
    return without_escaped(block, quote, escape).count(quote) % 2 == 1


def is_understood(block: bytes, quote: bytes, escape: bytes, separator: int, *, is_multiline: bool) -> bool:
    """Return whether the options of Arrow say how Spark's reader cuts a block of whole records that has quotes."""
    plain = without_escaped(block, quote, escape)
    are_doubled = quote == escape
    if not are_around_values(plain, quote[0], separator, is_multiline=is_multiline, are_doubled=are_doubled):
        return False
    if plain == block:
        return True
    quotes = np.flatnonzero(np.frombuffer(plain, np.uint8) == quote[0])
    escapes = [found.start() for found in _escaped(quote, escape).finditer(block)]
    return escape not in plain and bool((np.searchsorted(quotes, escapes) % 2 == 1).all())


def _escaped(quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(escape) + b"(?:" + re.escape(escape) + b"|" + re.escape(quote) + b")")
