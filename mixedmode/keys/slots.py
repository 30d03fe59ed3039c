"""Number rows by the value of their key, if the values of one column nearly fill a range.

The value minus the least value is already the number of the row's group. Numbers without gaps would need
several more passes over all rows, with random access.

    Example: the values 7, 5, 8, 7 have the slots 2, 0, 3, 2. The slot 1, of the value 6, is not taken.

Invariants (tests/keys/test_slots.py):
  I1  the key of a row's slot is the row's value
  I2  a slot is taken if and only if a row is in it; at least half of the slots are taken
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.keys.arrow import I64, Bools
from mixedmode.keys.values import integers_of

_SLOTS_PER_TAKEN = 2  # with more gaps, computing values for empty slots costs as much as numbering without gaps


@dataclass(frozen=True, slots=True)
class Slots:
    """A slot for each value of a range; `len(keys)` is their number."""

    codes: I64  #: (n,) the slot of each row
    keys: pa.Array  #: (slots,) the value of each slot, ascending, of the column's type
    is_taken: Bools  #: (slots,) whether there is a row with that value


def slots_of(column: pa.Array) -> Slots | None:
    """Return the slots of a column of n rows, None if its values do not nearly fill a range.

    That is the case if the column is empty, has NULLs, or is not of integers, dates or timestamps. It is also the case
    if its range has more than n values, or if fewer than half of these values occur.
    """
    values = integers_of(column)
    if values is None or len(values) == 0:
        return None
    low, high = int(values.min()), int(values.max())
    size = high - low + 1
    if size > len(values):
        return None
    codes = values.astype(np.int64, copy=False)
    if low:
        codes = codes - low
    is_taken = np.zeros(size, np.bool_)
    is_taken[codes] = True
    if _SLOTS_PER_TAKEN * int(is_taken.sum()) < size:
        return None
    keys = np.arange(low, high + 1, dtype=np.int64).astype(values.dtype)
    return Slots(codes, pa.Array.from_buffers(column.type, size, [None, pa.py_buffer(keys)]), is_taken)
