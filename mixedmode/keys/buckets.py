"""Divide rows by key among buckets, so that all rows of a key are in one bucket.

Keys that nearly fill a range are divided by value. So the keys of a bucket fill a range of their own, and `slots_of`
numbers them without a hash table. All other keys are divided by their hash.

    Example: the values 0 to 1023 have 256 buckets of 4 values each: the value 9 is in bucket 2.

Invariants (tests/keys/test_buckets.py):
  I1  rows with equal keys, in the sense of `group_codes`, are in one bucket
  I2  with division by value, no key of a bucket is greater than a key of the next one
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mixedmode.keys.arrow import U8
from mixedmode.keys.sample import hashed
from mixedmode.keys.values import integers_of

BUCKETS = 256
_BITS = (BUCKETS - 1).bit_length()
_SPAN_PER_KEY = 2  # with more gaps, most keys may be in few buckets


@dataclass(frozen=True, slots=True)
class Division:
    """Divides keys by value: bucket (value - `low`) >> `shift`. With `low` None, by hash."""

    low: int | None = None
    shift: int = 0

    def buckets(self, columns: Sequence[pa.Array]) -> U8:
        """Return the bucket (n,) of each row of one or more key columns."""
        values = None if self.low is None else integers_of(columns[0])
        if values is None or self.low is None:
            return (hashed(columns) >> np.uint64(64 - _BITS)).astype(np.uint8)
        return ((values.astype(np.int64, copy=False) - self.low) >> self.shift).astype(np.uint8)


def division_of(parts: Sequence[Sequence[pa.Array]], distinct: float) -> Division:
    """Return the division of rows whose key columns come in non-empty parts.  distinct: about the number of keys."""
    found = [integers_of(columns[0]) if len(columns) == 1 else None for columns in parts]
    values: list[Any] = [one for one in found if one is not None]
    if not values or len(values) < len(parts):
        return Division()
    low, high = min(int(one.min()) for one in values), max(int(one.max()) for one in values)
    if high - low >= _SPAN_PER_KEY * distinct:
        return Division()
    return Division(low, max(0, (high - low).bit_length() - _BITS))
