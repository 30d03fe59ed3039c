"""Values of equal length in one array: vectorised code writes them as an array, and RocksDB reads them one by one.

FixedBytes is both a sequence of bytes objects and a numpy array, so vectorised code never creates an
object per value.

Invariant (tests/state/test_fixed_bytes.py): sequence, slices and Arrow columns equal those of a list of these values.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys.arrow import U8, U64

WORD_BYTES = 8


class FixedBytes(Sequence[bytes]):
    """n values of `width` > 0 bytes: `rows` is (n, width) uint8, and must not be changed afterwards."""

    def __init__(self, rows: npt.NDArray[np.uint8]) -> None:
        self.rows = np.ascontiguousarray(rows)

    @staticmethod
    def of(column: pa.FixedSizeBinaryArray) -> "FixedBytes":
        """Return the values of a column without NULL, without a copy."""
        n, width = len(column), column.type.byte_width
        data = np.frombuffer(column.buffers()[1] or b"", np.uint8, count=n * width, offset=column.offset * width)
        return FixedBytes(data.reshape(n, width))

    @property
    def width(self) -> int:
        """Return the number of bytes of each value."""
        return int(self.rows.shape[1])

    @cached_property
    def _values(self) -> list[bytes]:
        return self.rows.view(f"V{self.width}").ravel().tolist()

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> "FixedBytes": ...
    def __getitem__(self, index: int | slice) -> "bytes | FixedBytes":
        """Return one value, without creating the other ones; or a slice, without a copy."""
        return FixedBytes(self.rows[index]) if isinstance(index, slice) else self.rows[index].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._values)

    def comparable(self) -> npt.NDArray[np.bytes_]:
        """Return (n,) values that numpy compares in byte order, without a copy.

        Use them for comparisons only: numpy strips trailing zero bytes from single elements.
        """
        return self.rows.view(f"S{self.width}").ravel()

    def strictly_increases(self) -> bool:
        """Return whether each value sorts after the one before, byte by byte."""
        is_open = np.ones(max(len(self) - 1, 0), np.bool_)  # neighbours whose bytes so far are equal
        for start in number_starts(self.width, min(self.width, WORD_BYTES)):
            words = words_at(self.rows, start)
            if (is_open & (words[1:] < words[:-1])).any():
                return False
            is_open &= words[1:] == words[:-1]
            if not is_open.any():
                return True
        return len(is_open) == 0

    def fixed_size_binary(self) -> pa.FixedSizeBinaryArray:
        """Return an Arrow column (n,) of `width` bytes each, without a copy."""
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.width), len(self), [None, pa.py_buffer(self.rows)])

    def offsets(self) -> npt.NDArray[np.int64]:
        """Return (n + 1,) positions in the bytes of all values, one after the other."""
        return np.arange(len(self) + 1, dtype=np.int64) * self.width

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the number of bytes of each value (n,)."""
        return np.full(len(self), self.width, np.int64)

    def large_binary(self) -> pa.LargeBinaryArray:
        """Return an Arrow column (n,), without a copy of the values."""
        buffers = [None, pa.py_buffer(self.offsets()), pa.py_buffer(self.rows)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)


def fixed_rows(values: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Return the bytes of all values one after the other, without a copy if they are FixedBytes."""
    return values.rows.ravel() if isinstance(values, FixedBytes) else np.frombuffer(b"".join(values), np.uint8)


def words_at(rows: U8, start: int) -> U64:
    """Return the bytes of each row (n, width) from `start` on, at most eight, as a big-endian number (n,)."""
    part = rows[:, start : start + WORD_BYTES]
    if part.shape[1] == WORD_BYTES:
        return part.view(">u8")[:, 0].astype(np.uint64)
    padded = np.zeros((len(rows), WORD_BYTES), np.uint8)
    put_columns(padded, 0, part)
    return padded.view(">u8").ravel().astype(np.uint64)


def put_columns(target: U8, at: int, source: U8) -> None:
    """Copy (..., m) bytes, m > 0, into `target` (..., width), which has the last axis contiguous, from column `at` on.

    numpy copies columns of numbers several times faster than short rows of bytes. A number may overlap the one before.
    Each column is copied twice: numpy has fast loops from and to an array whose numbers are aligned and adjacent.
    """
    width = source.shape[-1]
    size = next(size for size in (8, 4, 2, 1) if size <= width)
    numbers = np.empty((*target.shape[:-1], 1), f"u{size}")
    for start in number_starts(width, size):
        numbers[...] = source[..., start : start + size].view(numbers.dtype)
        target[..., at + start : at + start + size].view(numbers.dtype)[...] = numbers


def number_starts(width: int, size: int) -> list[int]:
    """Return where numbers of `size` bytes begin that cover `width` bytes. Example: of 4 bytes in 11: 0, 4, 7."""
    starts = list(range(0, width - size + 1, size))
    return starts if width % size == 0 else [*starts, width - size]
