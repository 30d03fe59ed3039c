"""Values of several lengths, or with deleted ones among them, in one Arrow column.

ArrowBytes is to such values what FixedBytes (fixed_bytes.py) is to values of one length: a sequence of bytes objects
that vectorised code passes on as an array.

Invariant (tests/state/test_arrow_bytes.py): sequence, slices, counts and joined pieces equal those of a list.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from operator import lt
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import I64
from mixedmode.keys.rows import binary_rows
from mixedmode.state.fixed_bytes import FixedBytes

_FEW = 256
_Value = TypeVar("_Value", bytes, bytes | None)


class ArrowBytes(Sequence[_Value]):
    """n values in `column` (n,) large_binary; NULL is None. Keys are ArrowBytes[bytes], without NULL."""

    def __init__(self, column: pa.LargeBinaryArray) -> None:
        self.column = column

    @cached_property
    def _values(self) -> list[_Value]:
        return self.column.to_pylist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> "ArrowBytes[_Value]": ...
    def __getitem__(self, index: int | slice) -> "_Value | ArrowBytes[_Value]":
        """Return one value, without creating the other ones; or a slice, without a copy of the values."""
        if isinstance(index, slice):
            return ArrowBytes(self.column[index])
        value: _Value = self.column[index].as_py()
        return value

    def __iter__(self) -> Iterator[_Value]:
        return iter(self._values)

    def large_binary(self) -> pa.LargeBinaryArray:
        """Return the column."""
        return self.column

    def offsets(self) -> I64:
        """Return (n + 1,) positions in the column's data: value i lies between numbers i and i + 1."""
        rows = binary_rows(self.column)
        return np.append(rows.starts, rows.ends[-1:]) if len(rows) else np.zeros(1, np.int64)

    def lengths(self) -> I64:
        """Return the number of bytes of each value (n,), 0 for None."""
        lengths = np.diff(self.offsets())
        if self.column.null_count:  # Arrow allows bytes behind a NULL
            lengths[self.column.is_null().to_numpy(zero_copy_only=False)] = 0
        return lengths


def array_of(values: Sequence[_Value]) -> "FixedBytes | ArrowBytes[_Value]":
    """Return values as an array: FixedBytes if all have one length, and none is None. Arrays are not copied."""
    if isinstance(values, FixedBytes):
        return values
    column = large_binary(values)
    found = ArrowBytes[_Value](column)
    lengths = found.lengths()
    if column.null_count or not len(column) or not lengths[0] or (lengths != lengths[0]).any():
        return found
    rows = binary_rows(column)
    return FixedBytes(rows.data[rows.starts[0] : rows.ends[-1]].reshape(len(column), -1))


def piece_of(values: Sequence[_Value]) -> Sequence[_Value]:
    """Return values as an array, but few ones in a list as they are: an array costs as much as hundreds of values."""
    return values if isinstance(values, list) and len(values) < _FEW else array_of(values)


def data_bytes(values: Sequence[bytes | None]) -> int:
    """Return the number of bytes of all values together."""
    if isinstance(values, FixedBytes):
        return values.rows.size
    if isinstance(values, ArrowBytes):
        offsets = values.offsets()
        return int(offsets[-1] - offsets[0])
    return sum(map(len, filter(None, values)))


def large_binary(values: Sequence[bytes | None]) -> pa.LargeBinaryArray:
    """Return an Arrow column (n,), NULL for None; without a copy of the values if they are in an array."""
    if isinstance(values, ArrowBytes):
        return values.column
    return values.large_binary() if isinstance(values, FixedBytes) else pa.array(values, pa.large_binary())


def none_count(values: Sequence[bytes | None]) -> int:
    """Return how many of the values are None."""
    if isinstance(values, FixedBytes):
        return 0
    return int(values.column.null_count) if isinstance(values, ArrowBytes) else values.count(None)


def present(values: Sequence[bytes | None]) -> npt.NDArray[np.intp]:
    """Return the positions (m,) of the values that are not None, ascending."""
    if isinstance(values, FixedBytes):
        return np.arange(len(values))
    if isinstance(values, ArrowBytes):
        return np.flatnonzero(values.column.is_valid().to_numpy(zero_copy_only=False))
    return np.flatnonzero([value is not None for value in values])


def without_none(values: Sequence[bytes | None]) -> Sequence[bytes]:
    """Return the values that are not None, in their order: in an array if they were in one."""
    if isinstance(values, FixedBytes):
        return values
    if isinstance(values, ArrowBytes):
        return ArrowBytes[bytes](values.column.drop_null())
    return [value for value in values if value is not None]


def strictly_increase(values: Sequence[bytes]) -> bool:
    """Return whether each value sorts after the one before, byte by byte."""
    if isinstance(values, FixedBytes):
        return values.strictly_increases()
    if isinstance(values, ArrowBytes):
        return bool(pc.all(pc.less(values.column[:-1], values.column[1:]), min_count=0).as_py())
    return all(map(lt, values, islice(values, 1, None)))


def values_at(values: Sequence[_Value], positions: npt.NDArray[np.intp]) -> Sequence[_Value]:
    """Return the values at some positions (m,): in an array if they were in one."""
    if isinstance(values, FixedBytes):
        return FixedBytes(values.rows[positions])
    if isinstance(values, ArrowBytes):
        return ArrowBytes(values.column.take(pa.array(positions)))
    return [values[position] for position in positions.tolist()]


def without(values: Sequence[bytes], positions: Sequence[int]) -> Sequence[bytes | None]:
    """Return the values (n,), with None at some positions."""
    is_none = np.zeros(len(values), np.bool_)
    is_none[positions] = True
    if not isinstance(values, FixedBytes):
        positions_of = np.arange(len(values))
        return ArrowBytes(large_binary(values).take(pa.array(positions_of, mask=is_none)))
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(~is_none * values.width, out=offsets[1:])
    is_valid = np.packbits(~is_none, bitorder="little")
    buffers = [pa.py_buffer(is_valid), pa.py_buffer(offsets), pa.py_buffer(values.rows[~is_none])]
    return ArrowBytes(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers))


def joined(pieces: Sequence[Sequence[_Value]]) -> Sequence[_Value]:
    """Return the concatenation of all pieces: FixedBytes if all are FixedBytes of one width, or a list if all are."""
    if len(pieces) == 1:
        return pieces[0]
    fixed = [piece for piece in pieces if isinstance(piece, FixedBytes)]
    if fixed and len(fixed) == len(pieces) and len({piece.width for piece in fixed}) == 1:
        return FixedBytes(np.concatenate([piece.rows for piece in fixed]))
    if fixed or any(isinstance(piece, ArrowBytes) for piece in pieces):
        return ArrowBytes(pa.concat_arrays([large_binary(piece) for piece in pieces]))
    return [value for piece in pieces for value in piece]
