"""Group codes for runs of equal keys in a sorted key column."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.aggregate.reduce import Grouping


def segments(keys: pa.Array) -> tuple[Grouping, npt.NDArray[np.intp]]:
    """Group equal neighbours of a sorted key column without NULLs. Return the grouping and each group's first row.

    Keys [a, a, b] have the codes [0, 0, 1] and the first rows [0, 2].
    """
    if len(keys) == 0:
        return Grouping(np.empty(0, np.int64), 0), np.empty(0, np.intp)
    starts = np.empty(len(keys), np.bool_)
    starts[0] = True
    starts[1:] = _differs_from_previous(keys)
    first_rows = np.flatnonzero(starts)
    return Grouping(np.cumsum(starts) - 1, len(first_rows)), first_rows


def _differs_from_previous(keys: pa.Array) -> npt.NDArray[np.bool_]:
    if not pa.types.is_fixed_size_binary(keys.type):
        return pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    width = keys.type.byte_width
    raw = np.frombuffer(keys.buffers()[1], np.uint8, count=len(keys) * width, offset=keys.offset * width)
    rows = raw.reshape(len(keys), width)
    differs = np.zeros(len(keys) - 1, np.bool_)
    for byte in range(width - 1, -1, -1):  # a column at a time: no (n, width) temporary
        differs |= rows[1:, byte] != rows[:-1, byte]
    return differs
