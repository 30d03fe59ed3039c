"""A register that keeps every distinct value of a group and how often it occurs: for exact percentiles.

State of a group, two columns: a packed list of int64 (operators/aggregate/packed.py) with the values in ascending
order, and one with the number of rows that have each value. A value whose rows have all been retracted leaves the list.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.packed import Lists, counted_by, pack, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Parts, Rows
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, ordered_values


@dataclass(frozen=True, slots=True)
class Counted:
    """The distinct values that are not NULL, in their order, and the rows of each one.

    `is_float` for floats, doubles, and decimals of more than 18 digits, which are taken as doubles; other types are
    int64 in their ordered form.
    """

    argument: int
    is_float: bool
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Values and numbers of rows."""
        return (pa.large_binary(), pa.large_binary())

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        argument = rows.arguments[self.argument]
        numbers = _numbers(argument, is_float=self.is_float)
        return _packed(grouping.where(argument.valid), numbers if argument.valid is None else numbers[argument.valid])

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        lists, rows = unpack(parts[:1]), unpack(parts[1:])
        return _packed(grouping.repeated(lists.counts).weighted(_integers(rows.values)), _integers(lists.values))

    def lists(self, parts: Parts) -> tuple[Lists, Int64s]:
        """The values of each group, and how many rows have each one."""
        return unpack(parts[:1]), _integers(unpack(parts[1:]).values)


def _packed(grouping: Grouping, numbers: Int64s) -> tuple[Values, ...]:
    lists, rows = counted_by(grouping, numbers)
    return (*pack(lists), *pack(Lists(lists.counts, Values(rows))))


def _numbers(argument: Argument, *, is_float: bool) -> Int64s:
    """(n,) int64 in the order of the values."""
    is_wide_decimal = is_float and argument.ordered.is_binary
    return _integers(ordered_values(pa.array(argument.floats)) if is_wide_decimal else argument.ordered)


def _integers(values: Values) -> Int64s:
    assert isinstance(values.data, np.ndarray), "an int64 column"
    return values.data.astype(np.int64, copy=False)
