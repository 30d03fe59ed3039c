"""Rows numbered by the value of their key, where the values of one column nearly fill a range.

The one idea: the value, counted from the least one, is the number of the row's group already. Whoever finds out which
values there are, to number those without a gap, reads all rows a few times more, at random.

Invariants (tests/keys/test_slots.py):
  I1  the key of a row's slot is the row's value
  I2  a slot is taken exactly when a row is in it; at least half of them are
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.keys.arrow import I64, Bools
from mixedmode.keys.values import integers_of

_SLOTS_PER_TAKEN = 2  # with more gaps, what is computed for them costs as much as numbering without


@dataclass(frozen=True, slots=True)
class Slots:
    """A slot for each value of a range; `len(keys)` is their number."""

    codes: I64  #: (n,) the slot of each row
    keys: pa.Array  #: (slots,) the value of each slot, ascending, of the column's type
    is_taken: Bools  #: (slots,) whether there is a row with that value


def slots_of(column: pa.Array) -> Slots | None:
    """The slots of a column of n rows.

    None where its values do not nearly fill a range: it is empty, has NULLs, is not of integers, dates or timestamps,
    its range has more than n values, or fewer than half of those are there.
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
