"""Finds the rows of a batch that may be among the best of their keys, by the first order column alone.

The other rows are dropped before rows are packed into bytes and sorted, which takes several times as long.

    Example: n = 2, descending, a key with the values 9, 7, 7, 4. The second best is 7, so 4 is dropped. Both 7 remain:
    which of them is better, other columns say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import KeySchema, distinct_part, group_codes, to_ordered
from mixedmode.operators.top.rows import OrderColumn

__all__ = ["Candidates", "candidates"]

_DISTINCT_MAX = 0.6  # where more of the keys are distinct, hardly a row is dropped
_TIED_MAX = 1.25  # candidates for each row that will remain; with more, sorting them pays
_BITS = 64


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows, ascending, that may be among the best n of their key. `rows`: None for all of them.

    `has_more`: sorting them by all order columns may drop many more.
    """

    rows: npt.NDArray[np.intp] | None
    has_more: bool


def candidates(keys: Sequence[pa.Array], column: pa.Array, by: OrderColumn, n: int) -> Candidates:
    """Return the candidates for the best n of each key, by the first order column; all rows if it does not pay to look.

    All rows with equal values remain, so they are no fewer than the best n of each key.
    """
    has_words = KeySchema((pa.field("order", by.data_type),)).is_fixed_width
    if not has_words or column.null_count:
        return Candidates(None, has_more=True)
    if not len(column) or distinct_part(keys) > _DISTINCT_MAX:
        return Candidates(None, has_more=False)
    groups = group_codes(keys)
    codes, sizes = groups.codes, np.bincount(groups.codes)
    values = to_ordered(column)[0].astype(np.uint64)  # of two words the first, so values may seem equal that are not
    values = values.max() - values if by.descending else values - values.min()
    bits = _BITS - max(1, (len(sizes) - 1).bit_length())  # for the value, beside the number of the key
    dropped = max(0, int(values.max()).bit_length() - bits)
    ranked = (codes.astype(np.uint64) << np.uint64(bits)) | (values >> np.uint64(dropped))
    ends = np.cumsum(sizes)
    worst = np.sort(ranked)[np.minimum(ends - sizes + n, ends) - 1]
    rows = np.flatnonzero(ranked <= worst[codes])
    remaining = int(np.minimum(sizes, n).sum())
    return Candidates(None if len(rows) == len(codes) else rows, len(rows) > _TIED_MAX * remaining)
