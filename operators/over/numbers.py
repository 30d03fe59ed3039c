"""The numbers that sums and means of an `over` step are made of: floats, and whole numbers in limbs of 32 bits.

A whole number, which is an integer or the digits of a decimal, is the sum of limbs[i] * 2**(32 * i). Sums of limbs are
exact in int64, as a table has less than 2**31 rows.

    Example: -1 as an int64 has the limbs [2**32 - 1, -1].
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.values import Bools, Int64s
from mixedmode.operators.floats import Floats

__all__ = ["floats_of", "limbs_of", "sum_type", "summed", "total"]

_BITS = 32
_MASK = 2**_BITS - 1
_LIMITS = (-(2 ** (_BITS - 1)), 2 ** (_BITS - 1))  # of the last limb
_DIGITS_MORE, _DIGITS_MAX = 10, 38  # of a sum of decimals in Spark


def sum_type(data_type: pa.DataType) -> pa.DataType | None:
    """Return the type of a sum of values, as in Spark; None if there is none."""
    if pa.types.is_integer(data_type):
        return pa.int64()
    if pa.types.is_floating(data_type):
        return pa.float64()
    if pa.types.is_decimal128(data_type):
        return pa.decimal128(min(data_type.precision + _DIGITS_MORE, _DIGITS_MAX), data_type.scale)
    return None


def floats_of(values: pa.Array) -> Floats:
    """Return numbers (n,) as doubles, with 0 for NULL."""
    return pc.fill_null(values.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def limbs_of(values: pa.Array) -> list[Int64s]:
    """Return the limbs (n,) each of integers or decimals (n,), the lowest first, with 0 for NULL."""
    if not pa.types.is_decimal(values.type):
        numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return [numbers & _MASK, numbers >> _BITS]
    filled = pc.fill_null(values, pa.scalar(Decimal(0), values.type)) if values.null_count else values
    words = np.frombuffer(filled.buffers()[1], "<i4").reshape(-1, 4)[filled.offset : filled.offset + len(filled)]
    numbers = words.astype(np.int64)
    return [*(numbers[:, part] & _MASK for part in range(3)), numbers[:, 3]]


def total(limbs: Sequence[Int64s]) -> Floats:
    """Return sums of limbs (n,) as doubles, rounded."""
    found = np.zeros(len(limbs[0]))
    for part, limb in enumerate(_carried(limbs)):
        found += limb.astype(np.float64) * 2.0 ** (_BITS * part)
    return found


def summed(limbs: Sequence[Int64s], result_type: pa.DataType, is_missing: Bools, where: str) -> pa.Array:
    """Return sums of limbs (n,) as integers or decimals, NULL where they are missing.

    Raise InvalidJobError, beginning with `where`, if one does not fit the type.
    """
    carried = _carried(limbs)
    overflows = (carried[-1] < _LIMITS[0]) | (carried[-1] >= _LIMITS[1])
    if overflows.any():
        raise _too_large(result_type, where)
    if not pa.types.is_decimal(result_type):
        return pa.array((carried[1] << _BITS) | carried[0], result_type, mask=is_missing)
    words = np.stack([limb & _MASK for limb in carried], axis=1).astype("<u4")
    found = pa.Array.from_buffers(result_type, len(words), [None, pa.py_buffer(words)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _too_large(result_type, where) from error
    return pc.if_else(pa.array(is_missing), pa.scalar(None, result_type), found)


def _carried(limbs: Sequence[Int64s]) -> list[Int64s]:
    """Return the limbs of the same numbers, all but the last one from 0 to 2**32 - 1."""
    found = list(limbs)
    for part in range(len(found) - 1):
        found[part + 1] = found[part + 1] + (found[part] >> _BITS)
        found[part] = found[part] & _MASK
    return found


def _too_large(result_type: pa.DataType, where: str) -> InvalidJobError:
    return InvalidJobError(
        f"{where} is too large for its result type, and a wrong number would be worse than none. Cast the argument to "
        f"DOUBLE in a sql step before. result_type={result_type}"
    )
