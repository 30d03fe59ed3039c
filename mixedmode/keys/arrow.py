"""Names of numpy types for keyed code, and a view of an Arrow buffer."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

AnyNumpy = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]


def from_buffer(buffer: pa.Buffer | None, dtype: npt.DTypeLike, *, count: int, start: int = 0) -> AnyNumpy:
    """View `count` values of an Arrow buffer, from the value number `start` on. Read-only, without a copy.

    Arrow may leave out the buffers of an empty array: then `count` must be 0.
    """
    type_ = np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype=type_)
    assert buffer is not None, count
    view: AnyNumpy = np.frombuffer(buffer, dtype=type_, count=count, offset=start * type_.itemsize)
    return view
