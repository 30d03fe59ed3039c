"""The ordered bits of floating-point numbers."""

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "ordered_bits", "ordered_to_floats"]

Floats = npt.NDArray[np.float64]
_LOW_63_BITS = np.int64(2**63 - 1)


def ordered_bits(floats: Floats) -> npt.NDArray[np.int64]:
    """Return int64 whose order is numeric order: IEEE 754 bits, lower 63 flipped for negatives; one NaN above all."""
    bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return bits ^ ((bits >> 63) & _LOW_63_BITS)


def ordered_to_floats(ordered: npt.NDArray[np.int64]) -> Floats:
    """Return the doubles (n,) whose ordered bits are `ordered` (n,)."""
    return (ordered ^ ((ordered >> 63) & _LOW_63_BITS)).view(np.float64)
