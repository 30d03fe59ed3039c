"""The columns of a row as bytes that can be stored and sorted: of any type that a record may have.

Each column becomes one or more columns that `encode_keys` takes:

    struct          bool, which is false for NULL, then the columns of each field
    array, map      binary: 01 and an element, for each | 00 | length u32 of each, with the 01 | number u32
    float, double   int64: the ordered bits, so that -0.0 stays -0.0
    another type    as it is

The elements of a map are structs of key and value, in their order. So the byte order of rows is that of their values:
NULL first, structs field by field, arrays element by element, and a shorter array before one that goes on.

    Example: the array [5, NULL] of int8 is 01 01 85 | 01 00 00 | 00 | 00 00 00 03 | 00 00 00 03 | 00 00 00 02.

Checkpoints store these bytes.

Invariants (tests/operators/test_row_columns.py):
  I1  the byte order of encoded rows is the order of their values
  I2  decoded_rows returns the encoded columns
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys import KeySchema, decode_keys, encode_keys, key_pieces
from mixedmode.keys.arrow import I64, U8, Bools, elements_of
from mixedmode.keys.rows import BinaryRows, binary_rows, cut, read_at
from mixedmode.keys.values import valid_mask
from mixedmode.operators.floats import ordered_bits, ordered_to_floats

__all__ = ["decoded_rows", "encoded_rows", "has_order", "is_scalar", "is_storable", "row_pieces"]

_MORE, _END = b"\x01", b"\x00"  #: before each element, and after the last one
_LENGTH_BYTES = 4
_LENGTH = f">u{_LENGTH_BYTES}"


def is_scalar(data_type: pa.DataType) -> bool:
    """Return whether a column of this type has no parts, and can be encoded."""
    checks = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal128,
        pa.types.is_boolean,
        pa.types.is_timestamp,
        pa.types.is_date32,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(check(data_type) for check in checks)


def is_storable(data_type: pa.DataType) -> bool:
    """Return whether a column of this type can be encoded."""
    if pa.types.is_struct(data_type):
        return all(is_storable(field.type) for field in data_type)
    return is_storable(_element(data_type).type) if _has_elements(data_type) else is_scalar(data_type)


def has_order(data_type: pa.DataType) -> bool:
    """Return whether Spark can order the values of this type, and the encoded ones have its order."""
    if pa.types.is_struct(data_type):
        return all(has_order(field.type) for field in data_type)
    return has_order(data_type.value_type) if pa.types.is_list(data_type) else is_scalar(data_type)


def encoded_rows(columns: Sequence[pa.Array], fields: Sequence[pa.Field], *, zeros_tie: bool = False) -> pa.Array:
    """Encode columns (n,) of `fields`, of which there is at least one, as bytes (n,) that `decoded_rows` reads.

    zeros_tie: -0.0 becomes 0.0, which Spark takes for equal.
    """
    return encode_keys(_flattened(columns, zeros_tie=zeros_tie), _schema(tuple(fields)))


def row_pieces(columns: Sequence[pa.Array], fields: Sequence[pa.Field]) -> list[Any]:
    """Return the pieces of encoded rows, to be joined with those of key and order at once; [] without fields."""
    return key_pieces(_flattened(columns, zeros_tie=False), _schema(tuple(fields))) if fields else []


def decoded_rows(rows: pa.Array, fields: Sequence[pa.Field]) -> list[pa.Array]:
    """Return the columns of encoded rows (n,); [] if there are no fields.

    Raise CorruptStateError if the bytes are not rows of these fields.
    """
    if not fields:
        return []
    parts = iter(decode_keys(rows, _schema(tuple(fields))))
    return [_restored(parts, field.type) for field in fields]


@lru_cache(maxsize=1024)
def _schema(fields: tuple[pa.Field, ...]) -> KeySchema:
    return KeySchema(tuple(pa.field(field.name, part) for field in fields for part in _flat_types(field.type)))


def _flat_types(data_type: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(data_type):
        return [pa.bool_(), *(part for field in data_type for part in _flat_types(field.type))]
    if _has_elements(data_type):
        return [pa.large_binary()]
    return [pa.int64() if pa.types.is_floating(data_type) else data_type]


def _flattened(columns: Sequence[pa.Array], *, zeros_tie: bool) -> list[pa.Array]:
    return [part for column in columns for part in _flat_columns(column, zeros_tie=zeros_tie)]


def _flat_columns(column: pa.Array, *, zeros_tie: bool) -> list[pa.Array]:
    if pa.types.is_struct(column.type):  # flatten: the fields of a NULL are NULL
        return [pc.is_valid(column), *_flattened(column.flatten(), zeros_tie=zeros_tie)]
    if _has_elements(column.type):
        return [_list_bytes(column, zeros_tie=zeros_tie)]
    if pa.types.is_floating(column.type):
        floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return [pa.array(ordered_bits(floats + 0.0 if zeros_tie else floats), mask=_nulls(column))]
    return [column]


def _restored(parts: Iterator[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Return the next column of a type.  parts: the columns that it was made to, and those of the columns after it."""
    first = next(parts)
    if pa.types.is_struct(data_type):
        fields = [_restored(parts, field.type) for field in data_type]
        return pa.Array.from_buffers(data_type, len(first), [first.buffers()[1]], children=fields)
    if _has_elements(data_type):
        return _lists(first, data_type)
    if pa.types.is_floating(data_type):
        floats = ordered_to_floats(first.fill_null(0).to_numpy())
        return pa.array(floats, mask=_nulls(first)).cast(data_type, safe=False)
    return first


def _nulls(column: pa.Array) -> Bools | None:
    valid = valid_mask(column)
    return None if valid is None else ~valid


def _has_elements(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_map(data_type))


def _element(data_type: pa.DataType) -> pa.Field:
    """Return the field of the elements of an array or a map."""
    if pa.types.is_map(data_type):
        return pa.field("entries", pa.struct([data_type.key_field, data_type.item_field]), nullable=False)
    return data_type.value_field


def _list_bytes(column: pa.Array, *, zeros_tie: bool) -> pa.Array:
    """Return the bytes (n,) of arrays or maps, NULL where they are NULL."""
    element, valid = _element(column.type), valid_mask(column)
    sizes = np.diff(column.offsets.to_numpy().astype(np.int64))
    if valid is not None:
        sizes = np.where(valid, sizes, 0)
    bounds = _bounds(sizes)
    elements = encoded_rows([elements_of(column)], [element], zeros_tie=zeros_tie)
    marked = binary_rows(pc.binary_join_element_wise(_scalar(_MORE), elements.cast(pa.large_binary()), _scalar(b"")))
    upto = np.append(marked.starts, len(marked.data))
    lengths = (marked.ends - marked.starts).astype(_LENGTH)
    numbers = sizes.astype(_LENGTH)
    parts = [
        _binary(upto[bounds], marked.data),
        _scalar(_END),
        _binary(_LENGTH_BYTES * bounds, lengths.view(np.uint8)),
        _binary(_LENGTH_BYTES * np.arange(len(column) + 1), numbers.view(np.uint8)),
    ]
    found = pc.binary_join_element_wise(*parts, _scalar(b""))
    return found if valid is None else pc.if_else(pa.array(valid), found, pa.scalar(None, pa.large_binary()))


def _lists(column: pa.LargeBinaryArray, data_type: pa.DataType) -> pa.Array:
    """Return the arrays or maps (n,) that `_list_bytes` has encoded."""
    valid = valid_mask(column)
    places = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
    every = binary_rows(column)
    rows = BinaryRows(every.data, every.starts[places], every.ends[places])
    sizes = read_at(rows.data, _LENGTH, rows.ends - _LENGTH_BYTES).astype(np.int64)
    elements, bounds = _elements_of(rows, sizes), np.zeros(len(column), np.int64)
    bounds[places] = sizes
    (values,) = decoded_rows(elements, [_element(data_type)])
    buffers = [None if valid is None else pa.array(valid).buffers()[1], pa.py_buffer(_bounds(bounds).astype(np.int32))]
    return pa.Array.from_buffers(data_type, len(column), buffers, children=[values])


def _elements_of(rows: BinaryRows, sizes: I64) -> pa.LargeBinaryArray:
    """Return the bytes of all elements of arrays.  rows: the bytes (k,) of the arrays; sizes: (k,) their numbers."""
    before = _bounds(sizes)
    place = np.arange(before[-1]) - np.repeat(before[:-1], sizes)  # of each element in its array
    lengths_at = np.repeat(rows.ends - _LENGTH_BYTES * (sizes + 1), sizes) + _LENGTH_BYTES * place
    lengths = read_at(rows.data, _LENGTH, lengths_at).astype(np.int64)
    upto = _bounds(lengths)
    ends = np.repeat(rows.starts - upto[before[:-1]], sizes) + upto[1:]
    return cut(rows.data, ends - lengths + len(_MORE), ends)


def _bounds(sizes: I64) -> I64:
    """Return where each of n parts begins, and the end of the last one: (n + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _binary(bounds: I64, data: U8) -> pa.LargeBinaryArray:
    """Return data[bounds[i]:bounds[i + 1]] for each i."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _scalar(value: bytes) -> pa.Scalar:
    return pa.scalar(value, pa.large_binary())
