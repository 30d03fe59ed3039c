"""A row packed into bytes that sort by key, then by the step's order, then by the whole row.

    key (keys/encode.py) | order columns | row columns | length of the key u32 | length of the order columns u32

Each order column is encoded as a key column is. A descending column has all bits inverted, which reverses the byte
order, because no encoded value is a prefix of another one. The first byte of a column, its NULL marker, is replaced
where NULLs have another place than that. The row columns (row_columns.py) hold every column other than the key, so that
the row can be unpacked.

    Example: key int8 1, order by int8 2 descending, row int8 2: 01 81 | fe 7d | 01 82 | 00 00 00 02 | 00 00 00 02.

Invariants (tests/operators/top/test_rows.py):
  I1  the byte order of packed rows is: key, then the order columns as Spark sorts them, then the row columns ascending
  I2  unpack_keys and unpack_rows return the packed columns
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, decode_keys, encode_keys
from mixedmode.keys.rows import binary_rows, cut, read_at
from mixedmode.operators.aggregate.values import Int64s
from mixedmode.operators.row_columns import decoded_rows, row_pieces
from mixedmode.state.arrow_bytes import large_binary
from mixedmode.state.fixed_bytes import FixedBytes

_LENGTH_BYTES = 4
_TRAILER_BYTES = 2 * _LENGTH_BYTES
_FIRST, _LAST = 0x00, 0xFF  #: markers of a NULL that sort before and after the marker of every value


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A column by which rows are ordered. `nulls_first`: NULL sorts before every value, in either direction."""

    data_type: pa.DataType
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The parts of a packed row: the key, the order columns, and the columns of the row other than the key."""

    key_schema: KeySchema
    order: tuple[OrderColumn, ...]
    row_fields: tuple[pa.Field, ...]

    def pack(
        self, keys: Sequence[pa.Array], order: Sequence[pa.Array], row: Sequence[pa.Array]
    ) -> tuple[pa.Array, pa.LargeBinaryArray]:
        """Return the encoded keys (n,) and the packed rows (n,). `order` and `row` are the columns of the layout."""
        encoded = encode_keys(keys, self.key_schema)
        ordered = [_order_bytes(column, by) for column, by in zip(order, self.order, strict=True)]
        return encoded, joined_with_lengths(encoded, ordered, row_pieces(row, self.row_fields))

    def unpack_keys(self, packed: pa.LargeBinaryArray) -> list[pa.Array]:
        """Return the key columns of packed rows (n,)."""
        return decode_keys(keys_of(packed), self.key_schema)

    def unpack_rows(self, packed: pa.LargeBinaryArray) -> list[pa.Array]:
        """Return the row columns of packed rows (n,)."""
        parts = parts_of(packed)
        return decoded_rows(cut(parts.data, parts.order_ends, parts.row_ends), self.row_fields)


@dataclass(frozen=True, slots=True)
class Parts:
    """The bounds of the parts of packed rows, (n,) each. The key of row i is data[starts[i]:key_ends[i]], and so on."""

    data: npt.NDArray[np.uint8]
    starts: Int64s
    key_ends: Int64s
    order_ends: Int64s
    row_ends: Int64s


def parts_of(packed: pa.LargeBinaryArray) -> Parts:
    """Return the bounds of the parts of packed rows (n,)."""
    rows = binary_rows(packed)
    key_bytes = read_at(rows.data, ">u4", rows.ends - _TRAILER_BYTES).astype(np.int64)
    order_bytes = read_at(rows.data, ">u4", rows.ends - _LENGTH_BYTES).astype(np.int64)
    key_ends = rows.starts + key_bytes
    return Parts(rows.data, rows.starts, key_ends, key_ends + order_bytes, rows.ends - _TRAILER_BYTES)


def keys_of(packed: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the encoded keys (n,) of packed rows (n,)."""
    parts = parts_of(packed)
    return cut(parts.data, parts.starts, parts.key_ends)


def taken(values: pa.LargeBinaryArray, rows: npt.NDArray[np.intp]) -> pa.LargeBinaryArray:
    """Return the values at `rows`, without a copy if these are all of them in their order."""
    is_all = len(rows) == len(values) and bool((rows[1:] > rows[:-1]).all())
    return values if is_all else values.take(pa.array(rows))


def without_prefix(stored: Sequence[bytes], prefix_bytes: int, *, bytes_after: int = 0) -> pa.LargeBinaryArray:
    """Return stored keys (n,) without their first bytes, and without their last `bytes_after`."""
    rows = binary_rows(large_binary(stored))
    return cut(rows.data, rows.starts + prefix_bytes, rows.ends - bytes_after)


def joined_with_lengths(keys: pa.Array, order: Sequence[pa.Array], rows: Sequence[Any]) -> pa.LargeBinaryArray:
    """Return packed rows (n,) from the bytes of their parts. One of `rows` may be the same bytes for all of them."""
    parts = [part.cast(pa.large_binary()) for part in with_lengths(keys, order, rows)]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def with_lengths(keys: pa.Array, order: Sequence[pa.Array], rows: Sequence[Any]) -> list[Any]:
    """Return the parts of packed rows (n,), to be joined: those that are given, and the lengths."""
    lengths = np.zeros((len(keys), 2), ">u4")
    lengths[:, 0] = _byte_lengths([keys])
    lengths[:, 1] = _byte_lengths(order)
    return [keys, *order, *rows, FixedBytes(lengths.view(np.uint8)).fixed_size_binary()]


def _byte_lengths(parts: Sequence[pa.Array]) -> Int64s | int:
    """Return the total length of all parts, (n,); 0 if there is none."""
    total: Int64s | int = 0
    for part in parts:
        total = total + pc.binary_length(part).to_numpy(zero_copy_only=False).astype(np.int64)
    return total


def _order_bytes(column: pa.Array, by: OrderColumn) -> pa.LargeBinaryArray:
    """Encode one order column (n,) as bytes that sort in its direction."""
    encoded = encode_keys([column], KeySchema((pa.field("order", by.data_type),))).cast(pa.large_binary())
    if by.nulls_first and not by.descending:
        return encoded  # the order of keys
    rows = binary_rows(encoded)
    data = ~rows.data if by.descending else rows.data.copy()
    if column.null_count:
        is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
        data[rows.starts[is_null]] = _FIRST if by.nulls_first else _LAST
    bounds = np.append(rows.starts, len(data)) if len(rows) else np.zeros(1, np.int64)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(column), buffers)
