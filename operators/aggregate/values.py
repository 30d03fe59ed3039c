"""The storage forms that registers compute on, and their conversion from and to Arrow columns.

Three forms are enough for every SQL type:
  ordered  int64, or bytes, whose order is the order of the values     -> min, max, first, last
           structs, arrays and maps as row_columns.py encodes them
  limbs    int64 columns l0, l1, ... with value = sum(l_i * 2**(32*i)) -> exact sums of integers and decimals
  floats   float64                                                     -> sums and moments of doubles

Invariants (tests/operators/test_values.py):
  I1  a < b in Spark's order  exactly when  ordered(a) < ordered(b); NaN is the greatest double, as in Spark. -0.0 and
      0.0 are a tie in Spark; here -0.0 is below 0.0, so that min and max do not depend on the order of the rows
  I2  from_ordered(ordered_values(x), x.type) == x, NULLs and NaN included (-0.0 stays -0.0)
  I3  the limbs of a column add up to its exact unscaled values
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.operators.floats import Floats, ordered_bits, ordered_to_floats
from mixedmode.operators.row_columns import decoded_rows, encoded_rows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LIMB_BITS = 32
LIMB_MASK = np.int64(2**LIMB_BITS - 1)
_SIGN_64 = np.uint64(2**63)
_INT64_DIGITS = 18  # every decimal of up to 18 digits fits an int64
_WHOLE_FLOATS, _POWERS_OF_TEN = 2**53, 22  # doubles have all whole numbers and powers of ten up to these


@dataclass(frozen=True, slots=True)
class Values:
    """One column in a storage form: `data` is (n,) int64, float64, or a LargeBinaryArray (NULL slots are not read).

    `valid` is (n,) bool, or None if no value is NULL. The content of `data` at a NULL is unspecified.
    """

    data: Int64s | Floats | pa.LargeBinaryArray
    valid: Bools | None = None

    @property
    def is_binary(self) -> bool:
        """True for bytes, False for int64 and float64."""
        return isinstance(self.data, pa.Array)

    @property
    def integers(self) -> Int64s:
        """The data (n,) of an int64 column."""
        assert isinstance(self.data, np.ndarray), "an int64 column"
        return self.data.astype(np.int64, copy=False)

    @property
    def floats(self) -> Floats:
        """The data (n,) of a float64 column."""
        assert isinstance(self.data, np.ndarray), "a float64 column"
        return self.data.astype(np.float64, copy=False)

    def take(self, rows: npt.NDArray[np.intp]) -> "Values":
        """Return the values at `rows` (m,), in that order."""
        data = self.data.take(pa.array(rows)) if isinstance(self.data, pa.Array) else self.data[rows]
        return Values(data, None if self.valid is None else self.valid[rows])

    def to_arrow(self) -> pa.Array:
        """Return an Arrow column of int64, float64 or large_binary, NULL where not valid."""
        if isinstance(self.data, pa.Array):
            if self.valid is None:
                return self.data
            return pc.if_else(pa.array(self.valid), self.data, pa.scalar(None, self.data.type))
        return pa.array(self.data, mask=None if self.valid is None else ~self.valid)

    @staticmethod
    def from_arrow(column: pa.Array) -> "Values":
        """Inverse of `to_arrow`."""
        valid = validity(column)
        if pa.types.is_large_binary(column.type):
            return Values(column if valid is None else pc.fill_null(column, b""), valid)
        return Values(_numbers(column), valid)


def validity(column: pa.Array) -> Bools | None:
    """Return (n,) bool, True where not NULL; None if the column has no NULL."""
    if column.null_count == 0:
        return None
    return pc.is_valid(column).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _numbers(column: pa.Array) -> npt.NDArray[np.generic]:
    """Return the values buffer of a primitive column without a copy. NULL slots are unspecified."""
    dtype = column.type.to_pandas_dtype()
    if len(column) == 0:  # Arrow may omit the buffer of an empty column
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype=dtype, count=len(column) + column.offset)[column.offset :]


class Argument:
    """One argument column of a batch, converted to each storage form at most once."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    @cached_property
    def valid(self) -> Bools | None:
        """(n,) bool, True where not NULL; None without NULLs."""
        return validity(self.column)

    @cached_property
    def ordered(self) -> Values:
        """The ordered form: int64 or bytes that sort like the values."""
        return ordered_values(self.column)

    @cached_property
    def normal(self) -> Values:
        """As `ordered`, but with -0.0 equal to 0.0: values that Spark treats as equal are equal."""
        if pa.types.is_floating(self.column.type):
            return Values(ordered_bits(float_values(self.column) + 0.0), self.valid)
        if pa.types.is_nested(self.column.type):
            return _nested_values(self.column, zeros_tie=True)
        return self.ordered

    @cached_property
    def is_true(self) -> Bools:
        """(n,) bool, where a boolean argument is true and not NULL."""
        return pc.fill_null(self.column, False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @cached_property
    def floats(self) -> Floats:
        """(n,) float64; unspecified at NULL."""
        return float_values(self.column)

    @cached_property
    def limbs(self) -> tuple[Int64s, ...]:
        """Two or four int64 columns; zero at NULL."""
        return integer_limbs(self.column)


def ordered_kind(data_type: pa.DataType) -> pa.DataType:
    """Return the Arrow type of `ordered_values` for a column of `data_type`: int64 or large_binary."""
    is_wide = pa.types.is_decimal(data_type) and data_type.precision > _INT64_DIGITS
    is_bytes = _is_text_or_bytes(data_type) or pa.types.is_nested(data_type)
    return pa.large_binary() if is_wide or is_bytes else pa.int64()


def ordered_values(column: pa.Array) -> Values:
    """Return the ordered form of a column: its order is Spark's order of the values (I1)."""
    data_type, valid = column.type, validity(column)
    if pa.types.is_nested(data_type):
        return _nested_values(column, zeros_tie=False)
    if _is_text_or_bytes(data_type):
        return Values(pc.fill_null(column.cast(pa.large_binary()), b""), valid)
    if pa.types.is_decimal(data_type):
        words = _decimal_words(column)
        if data_type.precision <= _INT64_DIGITS:
            return Values(words[:, 0].view(np.int64), valid)
        return Values(_wide_to_bytes(words), valid)
    if pa.types.is_floating(data_type):
        return Values(ordered_bits(float_values(column)), valid)
    if pa.types.is_boolean(data_type):
        return Values(_numbers(column.cast(pa.int8())).astype(np.int64), valid)
    if pa.types.is_timestamp(data_type):
        return Values(_numbers(column.view(pa.int64())), valid)
    if pa.types.is_date32(data_type):
        return Values(_numbers(column.view(pa.int32())).astype(np.int64), valid)
    return Values(_numbers(column).astype(np.int64, copy=False), valid)


def from_ordered(values: Values, data_type: pa.DataType) -> pa.Array:
    """Return an Arrow column of `data_type` from its ordered form: the inverse of `ordered_values` (I2)."""
    mask = None if values.valid is None else ~values.valid
    if pa.types.is_nested(data_type):
        return _nested(values, data_type)
    if isinstance(values.data, pa.Array):
        column = Values(values.data, values.valid).to_arrow()
        if pa.types.is_decimal(data_type):
            return decimal_column(_bytes_to_wide(values.data), data_type, mask)
        return column.cast(data_type)
    data = values.integers
    if pa.types.is_decimal(data_type):
        return decimal_column(np.stack([data.view(np.uint64), (data >> 63).view(np.uint64)], axis=1), data_type, mask)
    if pa.types.is_floating(data_type):
        return pa.array(ordered_to_floats(data), mask=mask).cast(data_type, safe=False)
    if pa.types.is_boolean(data_type):
        return pa.array(data != 0, mask=mask)
    if pa.types.is_timestamp(data_type):
        return pa.array(data, mask=mask).view(data_type)
    if pa.types.is_date32(data_type):
        return pa.array(data.astype(np.int32), mask=mask).view(data_type)
    return pa.array(data, mask=mask).cast(data_type)


def _nested_values(column: pa.Array, *, zeros_tie: bool) -> Values:
    field = pa.field("value", column.type)
    return Values(encoded_rows([column], [field], zeros_tie=zeros_tie).cast(pa.large_binary()), validity(column))


def _nested(values: Values, data_type: pa.DataType) -> pa.Array:
    """Return structs, arrays or maps from their ordered form."""
    field, data = pa.field("value", data_type), values.data
    if values.valid is not None:
        null = encoded_rows([pa.nulls(1, data_type)], [field]).cast(pa.large_binary())[0]
        data = pc.if_else(pa.array(values.valid), data, null)
    return decoded_rows(data, [field])[0]


def float_values(column: pa.Array) -> Floats:
    """Return a numeric column as (n,) float64; unspecified at NULL."""
    if pa.types.is_float64(column.type):
        return _numbers(column)  # type: ignore[return-value]
    if pa.types.is_decimal(column.type):
        return _nearest_floats(column)
    return _numbers(column.cast(pa.float64(), safe=False))  # type: ignore[return-value]


def _nearest_floats(column: pa.Array) -> Floats:
    """Return decimals as the nearest doubles, as Spark does. Arrow's cast makes 834.5600000000001 of 834.56.

    The quotient of two numbers that doubles have exactly is rounded once. Other decimals are read from their text.
    """
    words = _decimal_words(column).view(np.int64)
    low, scale = words[:, 0], column.type.scale
    is_exact = (words[:, 1] == low >> 63) & (low >= -_WHOLE_FLOATS) & (low <= _WHOLE_FLOATS)
    if scale <= _POWERS_OF_TEN and is_exact.all():
        return low / 10.0**scale  # type: ignore[no-any-return]
    return _numbers(column.cast(pa.string()).cast(pa.float64()))  # type: ignore[return-value]


def limb_count(data_type: pa.DataType) -> int:
    """Return the number of limbs of an exact sum: 2 hold 2**31 rows of int64, 4 hold 2**31 38-digit decimals."""
    is_wide = pa.types.is_decimal(data_type) and data_type.precision > _INT64_DIGITS
    return 4 if is_wide else 2


def integer_limbs(column: pa.Array) -> tuple[Int64s, ...]:
    """Return the limbs of a column's unscaled integers (I3), lowest first, 0 at NULL. Only the last limb is signed.

    With two limbs, 2**32 + 5 becomes (5, 1), and -1 becomes (2**32 - 1, -1).
    """
    valid = validity(column)
    if limb_count(column.type) == 2:
        ordered = ordered_values(column).data
        assert isinstance(ordered, np.ndarray), column.type
        whole: Int64s = ordered.astype(np.int64, copy=False)
        limbs: tuple[Int64s, ...] = (whole & LIMB_MASK, whole >> LIMB_BITS)
    else:
        words = _decimal_words(column)
        low, high = words[:, 0], words[:, 1].view(np.int64)
        bits, mask = np.uint64(LIMB_BITS), np.uint64(LIMB_MASK)
        limbs = (
            (low & mask).view(np.int64),
            (low >> bits).view(np.int64),
            high & LIMB_MASK,
            high >> LIMB_BITS,
        )
    return limbs if valid is None else tuple(np.where(valid, limb, 0) for limb in limbs)


def decimal_column(words: npt.NDArray[np.uint64], data_type: pa.DataType, mask: Bools | None) -> pa.Array:
    """Return a decimal128 column from two's complement words, (n, 2) uint64, low word first; NULL where `mask`."""
    validity_buffer = None if mask is None else pa.array(~mask).buffers()[1]
    contiguous = np.ascontiguousarray(words)
    return pa.Array.from_buffers(data_type, len(words), [validity_buffer, pa.py_buffer(contiguous)])


def _is_text_or_bytes(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
    )


def _decimal_words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the two's complement words of a decimal128 column: (n, 2) uint64, low word first."""
    if len(column) == 0:
        return np.empty((0, 2), np.uint64)
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint64, count=2 * (len(column) + column.offset))
    return raw.reshape(-1, 2)[column.offset :]


def _wide_to_bytes(words: npt.NDArray[np.uint64]) -> pa.LargeBinaryArray:
    """Return 16 bytes per value, big-endian with the sign flipped, so that byte order is numeric order."""
    image = np.empty((len(words), 2), dtype=">u8")
    image[:, 0] = words[:, 1] ^ _SIGN_64
    image[:, 1] = words[:, 0]
    offsets = np.arange(len(words) + 1, dtype=np.int64) * 16
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(image)]
    )


def _bytes_to_wide(column: pa.LargeBinaryArray) -> npt.NDArray[np.uint64]:
    """Return the words of bytes: the inverse of `_wide_to_bytes`. An empty value (a NULL) becomes zero."""
    padded = pc.if_else(pc.equal(pc.binary_length(column), 16), column, pa.scalar(b"\x80" + bytes(15), column.type))
    offsets = np.frombuffer(padded.buffers()[1], dtype=np.int64, count=len(padded) + 1 + padded.offset)[padded.offset :]
    raw = np.frombuffer(padded.buffers()[2] or b"", dtype=">u8", offset=int(offsets[0]), count=2 * len(padded))
    words = np.empty((len(padded), 2), dtype=np.uint64)
    words[:, 1] = raw[0::2].astype(np.uint64) ^ _SIGN_64
    words[:, 0] = raw[1::2]
    return words
