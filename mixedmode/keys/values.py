"""Convert values of fixed width to unsigned words whose numeric order is the order of the values, and back.

Each type becomes one or two unsigned words. In big-endian order they are the payload of an encoded key;
as numbers they are compared by grouping and sorting. NULL slots hold arbitrary words, which the caller masks.

    Example: int8 -1 is 0x7f and int8 1 is 0x81, so -1 sorts before 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.keys.arrow import AnyNumpy, Bools, from_buffer

Words = npt.NDArray[np.unsignedinteger[Any]]

_FLOAT_PATTERNS = {4: (0x7FC00000, 0x7F800000), 8: (0x7FF8000000000000, 0x7FF0000000000000)}  # NaN, infinity


def payload_words(type_: pa.DataType) -> tuple[str, ...] | None:
    """Return numpy codes of the unsigned words of a type, most significant first; None for unsupported types."""
    if pa.types.is_boolean(type_):
        return ("u1",)
    if pa.types.is_decimal128(type_):
        return ("u8", "u8")
    if pa.types.is_timestamp(type_):
        return ("u8",) if type_.unit == "us" else None
    if pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or type_ in (pa.float32(), pa.float64()):
        return (f"u{type_.bit_width // 8}",)
    return None


def to_ordered(column: pa.Array) -> list[Words]:
    """Return unsigned words of a column of fixed width, most significant first: (n,) arrays in native byte order."""
    words = payload_words(column.type)
    assert words is not None, column.type
    if pa.types.is_boolean(column.type):
        return [_buffer(column.cast(pa.uint8()), "u1", 1)]
    if pa.types.is_decimal128(column.type):
        pairs = _buffer(column, "<u8", 2).reshape(-1, 2)
        return [pairs[:, 1] ^ _sign(pairs.dtype), pairs[:, 0]]
    if pa.types.is_floating(column.type):
        return [_float_to_ordered(_buffer(column, words[0], 1))]
    bits = _buffer(column, words[0], 1)
    return [bits ^ _sign(bits.dtype)]


def integers_of(column: pa.Array) -> AnyNumpy | None:
    """Return the values of an integer, date or timestamp column without NULL as (n,) integers, without a copy.

    Return None for any other column.
    """
    type_ = column.type
    is_integer = pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_)
    return _buffer(column, f"i{type_.bit_width // 8}", 1) if is_integer and column.null_count == 0 else None


def from_ordered(words: Sequence[AnyNumpy], valid: Bools | None, type_: pa.DataType) -> pa.Array:
    """Return the (n,) values of `type_` for words of `to_ordered`, in any byte order; NULL where not `valid`."""
    native = [word.astype(word.dtype.newbyteorder("=")) for word in words]
    if pa.types.is_boolean(type_):
        booleans: pa.Array = pa.array(native[0] == 1, mask=None if valid is None else ~valid)
        return booleans
    if pa.types.is_decimal128(type_):
        data: AnyNumpy = np.stack([native[1], native[0] ^ _sign(native[0].dtype)], axis=1)
    elif pa.types.is_floating(type_):
        data = _float_from_ordered(native[0])
    else:
        data = native[0] ^ _sign(native[0].dtype)
    validity = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(type_, len(native[0]), [validity, pa.py_buffer(data)])


def valid_mask(column: pa.Array) -> Bools | None:
    """Return (n,) booleans, False where NULL; None if the column has no NULL."""
    if column.null_count == 0:
        return None
    mask: Bools = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return mask


def _buffer(column: pa.Array, dtype: str, per_row: int) -> AnyNumpy:
    """Return the value buffer of the rows of a (sliced) column, without a copy; NULL slots hold arbitrary values."""
    return from_buffer(column.buffers()[1], dtype, count=len(column) * per_row, start=column.offset * per_row)


def _sign(dtype: np.dtype[Any]) -> Any:
    """Return the word of this unsigned type in which only the highest bit is set."""
    return dtype.type(1 << (dtype.itemsize * 8 - 1))


def _float_to_ordered(bits: AnyNumpy) -> Words:
    # on the bits, because arithmetic on a signalling NaN raises a floating-point warning
    sign = _sign(bits.dtype)
    magnitude = bits & (sign - 1)
    nan, infinity = (bits.dtype.type(pattern) for pattern in _FLOAT_PATTERNS[bits.itemsize])
    bits = np.where(magnitude == 0, magnitude, bits)  # -0.0 -> 0.0
    bits = np.where(magnitude > infinity, nan, bits)
    negative: Bools = bits >= sign
    ordered: Words = np.where(negative, np.invert(bits), bits ^ sign)
    return ordered


def _float_from_ordered(ordered: AnyNumpy) -> AnyNumpy:
    sign = _sign(ordered.dtype)
    bits: AnyNumpy = np.where(ordered >= sign, ordered ^ sign, np.invert(ordered))
    return bits.view(f"f{ordered.dtype.itemsize}")
