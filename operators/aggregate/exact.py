"""Exact sums of integers and decimals in limbs of 32 bits (see values.py)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.values import LIMB_BITS, LIMB_MASK, Bools, Int64s, decimal_column
from mixedmode.operators.floats import Floats

__all__ = [
    "MAX_DECIMAL_DIGITS",
    "Integers",
    "carried",
    "check_fits",
    "exact_means",
    "exact_sums",
    "exceeds",
    "mean_type",
    "python_integers",
    "rounded_sums",
    "sum_type",
    "words_of_python",
]

MAX_DECIMAL_DIGITS = 38
Integers = npt.NDArray[np.object_]  # Python integers, of any size
_MORE_DIGITS = 10  # of a sum of decimals in Spark
_MORE_DIGITS_OF_MEAN = 4
#: an absolute value of the last of four limbs with which a number may have more than 38 digits
_SUSPECT = 10**MAX_DECIMAL_DIGITS >> (3 * LIMB_BITS)


def sum_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the exact sum of integers or decimals, as in Spark."""
    if not pa.types.is_decimal(data_type):
        return pa.int64()
    return pa.decimal128(min(MAX_DECIMAL_DIGITS, data_type.precision + _MORE_DIGITS), data_type.scale)


def carried(limbs: Sequence[Int64s]) -> list[Int64s]:
    """Propagate carries, so that every limb but the last is in [0, 2**32).

    The limbs [2**32 + 5, 1] become [5, 2], and [-1, 0] becomes [2**32 - 1, -1].
    """
    carry = np.zeros_like(limbs[0])
    normal = []
    for limb in limbs[:-1]:
        whole = limb + carry
        normal.append(whole & LIMB_MASK)
        carry = whole >> LIMB_BITS
    return [*normal, limbs[-1] + carry]


def exact_sums(limbs: Sequence[Int64s], is_missing: Bools, result_type: pa.DataType, what: str) -> pa.Array:
    """Return carried limbs (n,) as an int64 or decimal column, NULL where they are missing.

    Raise InvalidJobError, beginning with `what`, if one does not fit the type, as Spark's ANSI mode does.
    """
    if not pa.types.is_decimal(result_type):
        check_fits(_overflows_int64(limbs), result_type, what)
        return pa.array(limbs[0] + (limbs[1] << LIMB_BITS), mask=is_missing)
    if result_type.precision == MAX_DECIMAL_DIGITS:  # below, 10 digits of headroom are enough for 10**10 rows
        suspects = np.flatnonzero(np.abs(limbs[-1]) >= _SUSPECT)
        check_fits(exceeds(python_integers([limb[suspects] for limb in limbs]), MAX_DECIMAL_DIGITS), result_type, what)
    return decimal_column(_words(limbs), result_type, is_missing)


def mean_type(data_type: pa.Decimal128Type) -> pa.DataType:
    """Return the type of the mean of decimals, as in Spark."""
    digits, scale = data_type.precision + _MORE_DIGITS_OF_MEAN, data_type.scale + _MORE_DIGITS_OF_MEAN
    return pa.decimal128(min(MAX_DECIMAL_DIGITS, digits), min(MAX_DECIMAL_DIGITS, scale))


def exact_means(
    limbs: Sequence[Int64s], counts: Int64s, scale: int, result_type: pa.Decimal128Type, what: str
) -> pa.Array:
    """Return sums in carried limbs (n,) divided by counts, rounded half up to the result's scale; NULL for no value.

    scale: that of the sums. Raise InvalidJobError, beginning with `what`, if a mean does not fit its type.
    """
    shift, divisor = 10 ** (result_type.scale - scale), np.maximum(counts, 1)
    if len(limbs) == 2 and _fits_scaled(limbs, divisor, shift):
        quotient = _half_up((limbs[0] + (limbs[1] << LIMB_BITS)) * shift, divisor)
        return decimal_column(_words_of_int64(quotient), result_type, counts == 0)
    rounded = _half_up_python(python_integers(limbs) * shift, divisor.astype(object))
    check_fits(exceeds(rounded, result_type.precision), result_type, what)
    return decimal_column(words_of_python(rounded), result_type, counts == 0)


def rounded_sums(limbs: Sequence[Int64s]) -> Floats:
    """Return two limbs (n,) as doubles."""
    found: Floats = limbs[1].astype(np.float64) * 2.0**LIMB_BITS + limbs[0]
    return found


def _overflows_int64(limbs: Sequence[Int64s]) -> Bools:
    overflows: Bools = (limbs[1] >= 2 ** (LIMB_BITS - 1)) | (limbs[1] < -(2 ** (LIMB_BITS - 1)))
    return overflows


def exceeds(numbers: Integers, digits: int) -> Bools:
    """Return (n,) True for numbers with more digits."""
    return np.asarray(abs(numbers) >= 10**digits, dtype=np.bool_)


def check_fits(overflows: Bools, result_type: pa.DataType, what: str) -> None:
    """Raise InvalidJobError, beginning with `what`, if any number overflows its type."""
    if overflows.any():
        msg = (
            f"{what} is too large for its result type, and a wrong number would be worse than none. "
            "Cast the argument to a wider type in a sql step, for example CAST(x AS DECIMAL(38, 0)) or DOUBLE. "
            f"result_type={result_type}, keys_affected={int(overflows.sum())}"
        )
        raise InvalidJobError(msg)


def python_integers(limbs: Sequence[Int64s]) -> Integers:
    """Return limbs (n,) as Python integers."""
    total: Integers = limbs[-1].astype(object)
    for limb in reversed(limbs[:-1]):
        total = total * 2**LIMB_BITS + limb
    return total


def _words(limbs: Sequence[Int64s]) -> npt.NDArray[np.uint64]:
    """Return limbs as the (n, 2) two's complement words of a decimal128, low word first."""
    low = (limbs[0] | (limbs[1] << LIMB_BITS)).view(np.uint64)
    if len(limbs) == 2:
        high = (limbs[1] >> LIMB_BITS).view(np.uint64)
    else:
        high = (limbs[2] | (limbs[3] << LIMB_BITS)).view(np.uint64)
    return np.stack([low, high], axis=1)


def _half_up(numbers: Int64s, divisor: Int64s) -> Int64s:
    """Return quotients rounded half away from zero. The caller ensures that no step overflows (`_fits_scaled`)."""
    magnitude: Int64s = (2 * np.abs(numbers) + divisor) // (2 * divisor)
    return np.sign(numbers) * magnitude


def _half_up_python(numbers: Integers, divisor: Integers) -> Integers:
    """As `_half_up`, for numbers of any size."""
    magnitude = (2 * abs(numbers) + divisor) // (2 * divisor)
    rounded: Integers = np.where(numbers < 0, -magnitude, magnitude)
    return rounded


def _fits_scaled(limbs: Sequence[Int64s], divisor: Int64s, shift: int) -> bool:
    """Return whether 2 * total * shift + divisor fits an int64 for every group."""
    largest = (int(np.abs(limbs[1]).max(initial=0)) + 1) * 2**LIMB_BITS
    fits: bool = 2 * largest * shift + int(divisor.max(initial=1)) < 2**63
    return fits


def _words_of_int64(numbers: Int64s) -> npt.NDArray[np.uint64]:
    return np.stack([numbers.view(np.uint64), (numbers >> 63).view(np.uint64)], axis=1)


def words_of_python(numbers: Integers) -> npt.NDArray[np.uint64]:
    """Return integers as the (n, 2) two's complement words of a decimal128, low word first."""
    low = (numbers & (2**64 - 1)).astype(np.uint64)
    high = ((numbers >> 64) & (2**64 - 1)).astype(np.uint64)
    return np.stack([low, high], axis=1)
