"""Registers for bit_and, bit_or and bit_xor over whole numbers. Results are exact in any order of the rows."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Int64s, Values


@dataclass(frozen=True, slots=True)
class _OfWholeNumbers(Register):
    """Bits of an argument. NULLs are ignored."""

    argument: int
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64; NULL if no value was seen and the result depends on one."""
        return (pa.int64(),)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        return self.merge(grouping, (rows.arguments[self.argument].ordered,))


@dataclass(frozen=True, slots=True)
class Bits(_OfWholeNumbers):
    """The bits that are set in every value, or in any value (`any_of`)."""

    any_of: bool
    is_invertible = False

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        grouping, numbers = _present(grouping, parts[0])
        bits = np.full(grouping.size, 0 if self.any_of else -1)
        (np.bitwise_or if self.any_of else np.bitwise_and).at(bits, grouping.codes, numbers)
        seen = grouping.rows > 0
        return (Values(bits, None if seen.all() else seen),)


@dataclass(frozen=True, slots=True)
class BitParity(_OfWholeNumbers):
    """The bits that are set in an odd number of values; 0 without values. A retracted row flips its bits back."""

    is_invertible = True

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        grouping, numbers = _present(grouping, parts[0])
        if grouping.weights is not None:  # an even number of equal rows cancels out
            numbers = np.where(grouping.weights & 1, numbers, 0)
        bits = np.zeros(grouping.size, np.int64)
        np.bitwise_xor.at(bits, grouping.codes, numbers)
        return (Values(bits),)


def _present(grouping: Grouping, values: Values) -> tuple[Grouping, Int64s]:
    """Return the groups and the numbers of the rows that are not NULL."""
    assert isinstance(values.data, np.ndarray), "whole numbers"
    numbers = values.integers
    return grouping.where(values.valid), numbers if values.valid is None else numbers[values.valid]
