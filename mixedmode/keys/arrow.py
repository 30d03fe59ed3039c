"""Names of numpy types for keyed code, and a view of an Arrow buffer."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


def cast(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column, or an array, in a type. Raise pa.ArrowException if a value does not fit.

    Arrow itself makes a float that is too large infinite.
    """
    found = column.cast(data_type)
    if pa.types.is_floating(data_type) and pa.types.is_floating(column.type):
        infinities = [pc.sum(pc.is_inf(one)).as_py() for one in (column, found)]
        if infinities[0] != infinities[1]:
            msg = f"a number is too large for {data_type}"
            raise pa.ArrowInvalid(msg)
    return found
