"""Arrow and numpy types as this code names them, and the two places where their type stubs are too narrow.

pyarrow is generic for the type checker only (`pa.Array[Any]` fails at run time), and its kernels are typed per value
type, which code that serves every key type cannot satisfy. Both are settled here once, so no other module needs a cast.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    Array = pa.Array[Any]
    Field = pa.Field[Any]
    Scalar = pa.Scalar[Any]
else:
    Array, Field, Scalar = pa.Array, pa.Field, pa.Scalar

AnyNumpy = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]

kernels: Any = pyarrow.compute


def as_buffer(values: AnyNumpy) -> pa.Buffer:
    """Share a contiguous numpy array with Arrow, without a copy."""
    exporter: Any = values
    return pa.py_buffer(exporter)


def from_buffer(buffer: pa.Buffer | None, dtype: npt.DTypeLike, *, count: int, start: int = 0) -> AnyNumpy:
    """View `count` values of an Arrow buffer, from the value number `start` on. Read-only, without a copy.

    Arrow may leave out the buffers of an empty array: then `count` must be 0.
    """
    type_ = np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype=type_)
    assert buffer is not None, count
    source: Any = buffer
    view: AnyNumpy = np.frombuffer(source, dtype=type_, count=count, offset=start * type_.itemsize)
    return view
