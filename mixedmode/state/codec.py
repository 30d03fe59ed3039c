"""Encode rows of state columns as bytes, and decode them, vectorised.

Layout of a value, little-endian:

    version u8 | schema id u8 | validity bitmap, 1 bit per field, ceil(fields / 8) bytes
    | fixed part: 8 bytes per int64 or float64 field, 4 bytes (u32 length) per large_binary field, in field order
    | the bytes of the large_binary fields, in field order

A NULL field has its bit cleared and a fixed part of zeros. Golden bytes in tests/state/test_codec.py pin the layout. A
change of the layout requires a new version number, and the old version must stay readable.

    Example: one int64 field with the value 7 is 01 00 | 01 | 07 00 00 00 00 00 00 00.

Invariants (tests/state/test_codec.py):
  I1  unpack(pack(columns)) == columns, including NULLs, NaN and the sign of zero
  I2  a value of another length, version or schema is refused, no matter which values the batch also holds
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import CorruptStateError
from mixedmode.state.arrow_bytes import ArrowBytes, array_of, large_binary
from mixedmode.state.fixed_bytes import FixedBytes, fixed_rows, put_columns

VERSION = 1
SCHEMA_ID = 0
_HEADER_BYTES = 2
Bytes2D = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class RowCodec:
    """Packs columns of `fields` (int64, float64 or large_binary) into values, and unpacks them."""

    fields: tuple[pa.Field, ...]

    @property
    def is_fixed_width(self) -> bool:
        """Return whether all values have the same number of bytes."""
        return not any(_is_binary(field) for field in self.fields)

    @property
    def head_bytes(self) -> int:
        """Return the number of bytes before the variable part: header, validity, fixed part."""
        return _HEADER_BYTES + self._bitmap_bytes + sum(_fixed_bytes(field) for field in self.fields)

    @property
    def _bitmap_bytes(self) -> int:
        return (len(self.fields) + 7) // 8

    def pack(self, columns: Sequence[pa.Array]) -> Sequence[bytes]:
        """Return (n,) values from columns of (n,) each: FixedBytes if all fields have fixed width, else ArrowBytes."""
        heads = FixedBytes(self._heads(columns))
        if self.is_fixed_width:
            return heads
        parts = [heads.large_binary()]
        parts += [pc.fill_null(c, b"") for f, c in zip(self.fields, columns, strict=True) if _is_binary(f)]
        empty = pa.scalar(b"", pa.large_binary())
        return ArrowBytes(pc.binary_join_element_wise(*parts, empty))

    def unpack(self, values: Sequence[bytes]) -> list[pa.Array]:
        """Return columns of (n,) each from (n,) values. Raises CorruptStateError for a wrong version or length."""
        if self.is_fixed_width:
            heads = self._read_fixed(values)
            _check_version(heads)
            return self._columns(heads, None)
        return self.unpack_after(large_binary(values), np.zeros(len(values), np.int64))

    def unpack_after(self, packed: pa.LargeBinaryArray, prefix_bytes: npt.NDArray[np.int64]) -> list[pa.Array]:
        """As `unpack`, for values after a prefix of `prefix_bytes` (n,) bytes in each element of `packed` (n,)."""
        heads, tails = self._read_variable(packed, prefix_bytes)
        _check_version(heads)
        columns = self._columns(heads, tails)
        tails.check_ends()
        return columns

    def _heads(self, columns: Sequence[pa.Array]) -> Bytes2D:
        count = len(columns[0]) if columns else 0
        heads = np.zeros((count, self.head_bytes), np.uint8)
        heads[:, 0], heads[:, 1] = VERSION, SCHEMA_ID
        offset = _HEADER_BYTES + self._bitmap_bytes
        for index, (field, column) in enumerate(zip(self.fields, columns, strict=True)):
            valid = np.uint8(1 << (index % 8))
            byte = _HEADER_BYTES + index // 8
            width = _fixed_bytes(field)
            fixed = _lengths(column) if _is_binary(field) else _fixed_part(column)
            put_columns(heads, offset, fixed.view(np.uint8).reshape(count, width))
            if column.null_count == 0:
                heads[:, byte] |= valid
            else:
                is_valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
                heads[:, byte] |= np.where(is_valid, valid, np.uint8(0))
            offset += width
        return heads

    def _read_fixed(self, values: Sequence[bytes]) -> Bytes2D:
        values = array_of(values) if isinstance(values, ArrowBytes) else values
        lengths = {values.width} if isinstance(values, FixedBytes) else set(map(len, values))
        if not lengths <= {self.head_bytes}:
            _raise_corrupt(f"bytes={min(lengths - {self.head_bytes})}, bytes_expected={self.head_bytes}")
        return fixed_rows(values).reshape(len(values), self.head_bytes)

    def _read_variable(
        self, packed: pa.LargeBinaryArray, prefix_bytes: npt.NDArray[np.int64]
    ) -> tuple[Bytes2D, "_Tails"]:
        offsets = np.frombuffer(packed.buffers()[1], np.int64, count=len(packed) + 1 + packed.offset)[packed.offset :]
        data = np.frombuffer(packed.buffers()[2] or b"", np.uint8)
        starts = offsets[:-1] + prefix_bytes
        lengths = offsets[1:] - starts
        if (lengths < self.head_bytes).any():
            _raise_corrupt(f"bytes={lengths.min()}, bytes_expected_at_least={self.head_bytes}")
        heads = data[starts[:, None] + np.arange(self.head_bytes)] if len(packed) else _no_rows(self.head_bytes)
        return heads, _Tails(data, starts + self.head_bytes, offsets[1:])

    def _columns(self, heads: Bytes2D, tails: "_Tails | None") -> list[pa.Array]:
        columns = []
        offset = _HEADER_BYTES + self._bitmap_bytes
        for index, field in enumerate(self.fields):
            width = _fixed_bytes(field)
            fixed = np.ascontiguousarray(heads[:, offset : offset + width])
            is_null = heads[:, _HEADER_BYTES + index // 8] & np.uint8(1 << (index % 8)) == 0
            mask = is_null if is_null.any() else None
            if _is_binary(field):
                assert tails is not None
                columns.append(_with_nulls(tails.take(fixed.view("<u4").ravel().astype(np.int64)), mask))
            else:
                dtype = "<i8" if pa.types.is_int64(field.type) else "<f8"
                columns.append(pa.array(fixed.view(dtype).ravel(), mask=mask))
            offset += width
        return columns


class _Tails:
    """The variable parts of a batch of values, read field by field."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        self._data = data
        self._starts = starts.copy()  #: the start of each value's next field; never beyond the value's end
        self._ends = ends

    def take(self, lengths: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Return the next `lengths` (n,) bytes of each value. Raises CorruptStateError if a value has fewer."""
        lacking = lengths - (self._ends - self._starts)
        if (lacking > 0).any():
            _raise_corrupt(f"bytes_lacking={lacking.max()}")
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        positions = np.repeat(self._starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        self._starts += lengths
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data[positions])]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), buffers)

    def check_ends(self) -> None:
        """Raise CorruptStateError unless all bytes of the values have been read."""
        left = self._ends - self._starts
        if left.any():
            _raise_corrupt(f"bytes_left_over={left.max()}")


def _is_binary(field: pa.Field) -> bool:
    return bool(pa.types.is_large_binary(field.type))


def _fixed_bytes(field: pa.Field) -> int:
    return 4 if _is_binary(field) else 8


def _fixed_part(column: pa.Array) -> npt.NDArray[np.generic]:
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers: npt.NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))


def _lengths(column: pa.Array) -> npt.NDArray[np.generic]:
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(lengths.astype("<u4"))


def _with_nulls(column: pa.LargeBinaryArray, mask: npt.NDArray[np.bool_] | None) -> pa.Array:
    return column if mask is None else pc.if_else(pa.array(~mask), column, pa.scalar(None, column.type))


def _no_rows(width: int) -> Bytes2D:
    return np.empty((0, width), np.uint8)


def _check_version(heads: Bytes2D) -> None:
    if len(heads) and not ((heads[:, 0] == VERSION) & (heads[:, 1] == SCHEMA_ID)).all():
        bad = heads[(heads[:, 0] != VERSION) | (heads[:, 1] != SCHEMA_ID)][0]
        _raise_corrupt(f"version={bad[0]}, version_expected={VERSION}, schema={bad[1]}, schema_expected={SCHEMA_ID}")


def _raise_corrupt(values: str) -> None:
    msg = (
        "a stored state value is not in the format that this program reads: it is damaged, or was written by another "
        f"version or another job. Restore from an older checkpoint, or use a new checkpointing.dir. {values}"
    )
    raise CorruptStateError(msg)
