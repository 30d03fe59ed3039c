"""Registers that keep every distinct value of a group and its number of rows, for exact percentiles and for the mode.

The state of a group has two packed lists (operators/aggregate/packed.py). The first holds the values in ascending
order; the second holds the number of rows of each value, as int64. A value is removed from the list when all of its
rows have been retracted. Example: the rows 7, 3, 7 are stored as [3, 7] and [1, 2].
"""

from dataclasses import dataclass

import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.packed import Lists, counted_by, occurrences_by, pack, packed_fields, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Register, Rows
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, ordered_values


@dataclass(frozen=True, slots=True)
class Counted(Register):
    """The distinct non-NULL values in ascending order, and the number of rows of each.

    `is_float` is set for floats, doubles, and decimals of more than 18 digits, which are converted to doubles. Other
    types are int64 in their ordered form.
    """

    argument: int
    is_float: bool
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """The list of values, and the list of row counts."""
        return (pa.large_binary(), pa.large_binary())

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        argument = rows.arguments[self.argument]
        numbers = _numbers(argument, is_float=self.is_float)
        return _packed(grouping.where(argument.valid), numbers if argument.valid is None else numbers[argument.valid])

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists, rows = unpack(parts[:1]), unpack(parts[1:])
        return _packed(grouping.repeated(lists.counts).weighted(rows.values.integers), lists.values.integers)

    def lists(self, parts: Parts) -> tuple[Lists, Int64s]:
        """Return the values of each group, and the number of rows of each value."""
        return unpack(parts[:1]), unpack(parts[1:]).values.integers


@dataclass(frozen=True, slots=True)
class Occurrences(Register):
    """The distinct non-NULL values of any type in ascending order, and the number of rows of each.

    All NaN count as one value; 0.0 and -0.0 also count as one value.
    """

    argument: int
    kind: pa.DataType
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """The list of values, in one or two columns, and the list of row counts."""
        return (*packed_fields(self.kind), pa.large_binary())

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        return _both_packed(*occurrences_by(grouping, rows.arguments[self.argument].normal))

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        lists, rows = self.lists(parts)
        return _both_packed(*occurrences_by(grouping.repeated(lists.counts).weighted(rows), lists.values))

    def lists(self, parts: Parts) -> tuple[Lists, Int64s]:
        """Return the values of each group, and the number of rows of each value."""
        return unpack(parts[:-1]), unpack(parts[-1:]).values.integers


def _packed(grouping: Grouping, numbers: Int64s) -> tuple[Values, ...]:
    return _both_packed(*counted_by(grouping, numbers))


def _both_packed(lists: Lists, rows: Int64s) -> tuple[Values, ...]:
    return (*pack(lists), *pack(Lists(lists.counts, Values(rows))))


def _numbers(argument: Argument, *, is_float: bool) -> Int64s:
    """Return (n,) int64 that sort like the values."""
    is_wide_decimal = is_float and argument.ordered.is_binary
    return (ordered_values(pa.array(argument.floats)) if is_wide_decimal else argument.ordered).integers
