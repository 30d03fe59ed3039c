"""Values of one length, in one array: what vectorised code makes of keys and states, and what RocksDB takes one by one.

The one idea: it is a sequence of bytes for whoever needs an object per value, and an array for whoever does not.

Invariant (tests/state/test_fixed_bytes.py): sequence, slices and Arrow columns are those of a list of the same values.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Value = TypeVar("_Value", bytes, bytes | None)


class FixedBytes(Sequence[bytes]):
    """n values of `width` > 0 bytes: `rows` is (n, width) uint8, which nobody changes any more."""

    def __init__(self, rows: npt.NDArray[np.uint8]) -> None:
        self.rows = np.ascontiguousarray(rows)

    @staticmethod
    def of(column: pa.FixedSizeBinaryArray) -> "FixedBytes":
        """The values of a column without NULL, without a copy."""
        n, width = len(column), column.type.byte_width
        data = np.frombuffer(column.buffers()[1] or b"", np.uint8, count=n * width, offset=column.offset * width)
        return FixedBytes(data.reshape(n, width))

    @property
    def width(self) -> int:
        """Bytes of each value."""
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
        """One value, for which no other one is made; or a slice, without a copy."""
        return FixedBytes(self.rows[index]) if isinstance(index, slice) else self.rows[index].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._values)

    def comparable(self) -> npt.NDArray[np.bytes_]:
        """(n,) as numpy compares them, in the order of bytes; without a copy. What it gives one by one lacks zeros."""
        return self.rows.view(f"S{self.width}").ravel()

    def fixed_size_binary(self) -> pa.FixedSizeBinaryArray:
        """(n,) of `width` bytes each, without a copy."""
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.width), len(self), [None, pa.py_buffer(self.rows)])

    def large_binary(self) -> pa.LargeBinaryArray:
        """(n,), without a copy of the values."""
        offsets = np.arange(len(self) + 1, dtype=np.int64) * self.width
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.rows)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)


def joined(pieces: Sequence[Sequence[_Value]]) -> Sequence[_Value]:
    """The values of all pieces, one after the other: FixedBytes if all pieces are, of one width."""
    if len(pieces) == 1:
        return pieces[0]
    fixed = [piece for piece in pieces if isinstance(piece, FixedBytes)]
    if len(fixed) == len(pieces) and len({piece.width for piece in fixed}) == 1:
        return FixedBytes(np.concatenate([piece.rows for piece in fixed]))
    return [value for piece in pieces for value in piece]
