"""The bytes of a binary Arrow array, seen by numpy without a copy.

Row i of any binary array is data[starts[i]:ends[i]]. So the same code serves fixed and variable width,
including sliced arrays. A word is read at any byte offset through a view whose stride is one byte.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import I64, U8, U64, AnyNumpy, Bools, from_buffer

WORD_BYTES = 8
#: by length in bytes: the mask of the bits of a little-endian word that belong to a row of this length
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(WORD_BYTES + 1)], np.uint64)


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Rows of bytes: row i is data[starts[i]:ends[i]]. Valid while the Arrow array it came from is unchanged."""

    data: U8  #: all bytes of the buffer, up to the last row's end
    starts: I64  #: (n,), never decreasing
    ends: I64  #: (n,), starts[i] <= ends[i] <= starts[i + 1]

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, index: int) -> bytes:
        """Return the bytes of one row."""
        return self.data[self.starts[index] : self.ends[index]].tobytes()


def binary_rows(values: pa.Array) -> BinaryRows:
    """View an array of any binary or string type. The bytes of a NULL row are arbitrary."""
    n, type_ = len(values), values.type
    if pa.types.is_fixed_size_binary(type_):
        width = type_.byte_width
        bounds = (np.arange(n + 1, dtype=np.int64) + (values.offset if n else 0)) * width
        data = values.buffers()[1]
    else:
        wide = pa.types.is_large_binary(type_) or pa.types.is_large_string(type_)
        assert wide or pa.types.is_binary(type_) or pa.types.is_string(type_), type_
        _, offsets, data = values.buffers()
        bounds = _bounds(offsets, np.int64 if wide else np.int32, n, values.offset)
    return BinaryRows(from_buffer(data, np.uint8, count=int(bounds[-1])), bounds[:-1], bounds[1:])


def read_at(data: U8, dtype: npt.DTypeLike, positions: I64) -> AnyNumpy:
    """Gather one value of `dtype` from each byte position, aligned or not: (n,) positions -> (n,) values.

    Requires 0 <= position and position + itemsize <= len(data), else IndexError.
    """
    if len(positions) == 0:
        return np.empty(0, dtype=dtype)
    type_ = np.dtype(dtype)
    windows: AnyNumpy = np.ndarray((max(len(data) - type_.itemsize + 1, 0),), type_, data, 0, (1,))
    gathered: AnyNumpy = windows[positions]
    return gathered


def cut(data: U8, starts: I64, ends: I64, valid: Bools | None = None) -> pa.LargeBinaryArray:
    """Return data[starts[i]:ends[i]] for each row, NULL where not `valid`. The ranges ascend and do not overlap.

    So they are every second item of one Arrow array whose offsets are all bounds in order.
    """
    n = len(starts)
    if n == 0:
        return pa.array([], pa.large_binary())
    bounds = np.empty(2 * n, dtype=np.int64)
    bounds[0::2], bounds[1::2] = starts, ends
    pieces = pa.Array.from_buffers(pa.large_binary(), 2 * n - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    every_second = pa.array(np.arange(0, 2 * n, 2), mask=None if valid is None else ~valid)
    return pc.take(pieces, every_second)


def first_words(rows: BinaryRows) -> U64:
    """Return the first 8 bytes of each row as a little-endian integer, padded with zeros: (n,), n > 0.

    Copies all bytes from the first row on, so call it with a block of rows at a time.
    """
    padded = np.concatenate([rows.data[int(rows.starts[0]) :], np.zeros(WORD_BYTES, np.uint8)])
    words: U64 = read_at(padded, "<u8", rows.starts - rows.starts[0])  # of the last row, too
    lengths = rows.ends - rows.starts
    if lengths.min() < WORD_BYTES:
        words &= _MASKS[np.minimum(lengths, WORD_BYTES)]
    return words


def _bounds(buffer: pa.Buffer | None, dtype: npt.DTypeLike, n: int, offset: int) -> I64:
    if n == 0:  # Arrow lets an empty array leave its offsets out
        return np.zeros(1, dtype=np.int64)
    return from_buffer(buffer, dtype, count=n + 1, start=offset).astype(np.int64, copy=False)
