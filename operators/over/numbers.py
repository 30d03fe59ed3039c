"""The numbers that sums and means of an `over` step are made of."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.values import Int64s

__all__ = ["added", "as_numbers"]


def as_numbers(values: pa.Array, data_type: pa.DataType) -> np.ndarray:
    """Return values (n,) as numbers of a type, int64 or double, with 0 for NULL."""
    return pc.fill_null(values.cast(data_type, safe=False), 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def added(left: Int64s, right: Int64s, where: str) -> Int64s:
    """Return the sums (n,) of integers. Raise InvalidJobError, beginning with `where`, if one does not fit an int64."""
    sums = left + right
    overflows = ((left ^ sums) & (right ^ sums)) < 0
    if overflows.any():
        msg = (
            f"{where} is too large for its result type, and a wrong number would be worse than none. Cast the argument "
            f"to DOUBLE in a sql step before. result_type=int64, rows_affected={int(overflows.sum())}"
        )
        raise InvalidJobError(msg)
    return sums
