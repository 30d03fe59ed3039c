"""Pairs of rows of two sides whose times are near each other, by key: ranges of rows, then pairs in blocks.

Rows of each side are sorted by (code, time); a code is the number of a key.

    Example, of one key, with bounds [0, 10]: left at 5 and 20, right at 5, 12, 15 and 31. The ranges of rows of the
    right are [0, 3) and [3, 3), so there are 3 pairs: (0, 0), (0, 1), (0, 2).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.join.products import numbered_blocks
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

__all__ = ["Ranges", "moved_us", "ranges_within"]


@dataclass(frozen=True, slots=True)
class Ranges:
    """For each row of the left (n,), the rows of the right [starts, ends) that are its partners."""

    starts: Int64s
    ends: Int64s

    @property
    def partners(self) -> Int64s:
        """Return (n,) the number of partners of each row of the left."""
        return self.ends - self.starts

    def partners_of(self, rows: int) -> Int64s:
        """Return (rows,) the number of partners of each row of the right."""
        changes = np.zeros(rows + 1, np.int64)
        np.add.at(changes, self.starts, 1)
        np.add.at(changes, self.ends, -1)
        return np.cumsum(changes)[:-1]

    def pairs(self, block_rows: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield all pairs as (rows of the left, rows of the right), at most `block_rows` pairs at a time."""
        for left, offsets in numbered_blocks(self.partners, block_rows):
            yield left, self.starts[left] + offsets


def ranges_within(
    left: tuple[Int64s, Int64s], right: tuple[Int64s, Int64s], bounds_us: tuple[int, int], matches: Bools
) -> Ranges:
    """Return the partners of each row of the left: rows of its key at [time + lower, time + upper].

    left, right: (codes, times). bounds_us: (lower, upper). matches: (keys,) False for keys that are equal to nothing.
    """
    codes, times_us = left
    lower_us, upper_us = bounds_us
    starts = _first_from(right, codes, moved_us(times_us, lower_us), side="left")
    ends = _first_from(right, codes, moved_us(times_us, upper_us), side="right")
    return Ranges(starts, np.where(matches[codes], np.maximum(starts, ends), starts))


def moved_us(times_us: Int64s, by_us: int) -> Int64s:
    """Return times_us + by_us (n,), within [MIN_TIME_US, MAX_TIME_US]."""
    if by_us >= 0:
        return np.minimum(times_us, MAX_TIME_US - by_us) + by_us
    return np.maximum(times_us, MIN_TIME_US - by_us) + by_us


def _first_from(rows: tuple[Int64s, Int64s], codes: Int64s, times_us: Int64s, *, side: str) -> Int64s:
    """Return where in sorted `rows` each (code, time) belongs; side: before or after equal rows."""
    own_codes, own_us = rows
    least = min((int(times.min()) for times in (own_us, times_us) if len(times)), default=0)
    greatest = max((int(times.max()) for times in (own_us, times_us) if len(times)), default=0)
    keys = max((int(one.max()) for one in (own_codes, codes) if len(one)), default=0) + 1
    span = greatest - least + 1
    if span * keys < 2**63:  # one number for code and time
        return np.searchsorted(own_codes * span + (own_us - least), codes * span + (times_us - least), side=side)  # type: ignore[call-overload, no-any-return]
    distinct, ranks = np.unique(np.concatenate([own_us, times_us]), return_inverse=True)
    own, wanted = ranks[: len(own_us)], ranks[len(own_us) :]
    return np.searchsorted(own_codes * len(distinct) + own, codes * len(distinct) + wanted, side=side)  # type: ignore[call-overload, no-any-return]
