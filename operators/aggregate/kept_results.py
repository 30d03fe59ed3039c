"""The computation of results from registers that keep values: counts, sums, percentiles and lists of these values.

A result takes the state of g groups, and returns an Arrow array (g,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.collect import Collected, Distinct
from mixedmode.operators.aggregate.counted import Counted, Occurrences
from mixedmode.operators.aggregate.packed import list_counts, unpack
from mixedmode.operators.aggregate.reduce import Grouping
from mixedmode.operators.aggregate.registers import Register, Rows
from mixedmode.operators.aggregate.results import State
from mixedmode.operators.aggregate.values import Argument, Int64s, Values, float_values, from_ordered
from mixedmode.operators.floats import Floats


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """The exact number of distinct values; 0 without a value."""

    register: Distinct

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return pa.array(list_counts(state[self.register]))


@dataclass(frozen=True, slots=True)
class DistinctResult:
    """A result over each distinct value once, in ascending order: the `registers` of `result` are folded from them."""

    register: Distinct
    data_type: pa.DataType
    registers: tuple[Register, ...]
    result: Callable[[State], pa.Array]

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        lists = unpack(state[self.register])
        rows = Rows({self.register.argument: Argument(from_ordered(lists.values, self.data_type))})
        grouping = Grouping(lists.owners, len(lists.counts))
        return self.result({register: register.from_rows(grouping, rows) for register in self.registers})


@dataclass(frozen=True, slots=True)
class ExactPercentile:
    """An exact percentile, interpolated between two neighbouring values; NULL without a value.

    In n sorted values, the 0-based position is fraction * (n - 1). For the values 1 to 10 and fraction 0.5, the
    position is 4.5, and the result is 5.5.
    """

    register: Counted
    fraction: float
    data_type: pa.DataType  #: type of the kept values

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        groups = _SortedRows.of(self.register, state, self.data_type)
        position = (groups.sizes - 1) * self.fraction
        below, above = np.floor(position), np.ceil(position)
        low, high = groups.at(below), groups.at(above)
        between = low + (position - below) * (high - low)  # as in Spark, infinities may become NaN
        return pa.array(np.where((below == above) | (low == high), low, between), mask=groups.sizes == 0)


@dataclass(frozen=True, slots=True)
class ValueAtShare:
    """The first value, in order, up to which at least `fraction` of the rows are; NULL without a value.

    Of the values 1 to 10 and the fraction 0.25 it is 3. In descending order, it is 8.
    """

    register: Counted
    fraction: float
    data_type: pa.DataType  #: type of the kept values
    is_descending: bool

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        groups = _SortedRows.of(self.register, state, self.data_type)
        rank = np.maximum(np.ceil(groups.sizes * self.fraction), 1)  # from 1 on
        values = groups.at(groups.sizes - rank if self.is_descending else rank - 1)
        return pa.array(values, mask=groups.sizes == 0)


@dataclass(frozen=True, slots=True)
class _SortedRows:
    """The values of groups, each with its rows. Group i has the rows borders[i] to borders[i + 1] of all groups.

    doubles: (v,) in ascending order in each group. ends: (v + 1,), the number of rows before each value.
    """

    doubles: Floats
    ends: Int64s
    borders: Int64s

    @classmethod
    def of(cls, register: Counted, state: State, data_type: pa.DataType) -> Self:
        """Return those of a register, whose values have this type."""
        lists, rows = register.lists(state[register])
        ends = np.concatenate([[0], np.cumsum(rows)])
        borders = ends[np.concatenate([[0], np.cumsum(lists.counts)])]
        return cls(float_values(from_ordered(lists.values, data_type)), ends, borders)

    @property
    def sizes(self) -> Int64s:
        """The number of rows of each group."""
        return np.diff(self.borders)

    def at(self, ranks: Floats) -> Floats:
        """Return the value of each group at its 0-based rank. For a group without rows, it is arbitrary."""
        if not len(self.doubles):
            return np.zeros(len(ranks))
        places = np.searchsorted(self.ends, self.borders[:-1] + ranks.astype(np.int64), "right") - 1
        return self.doubles[np.clip(places, 0, len(self.doubles) - 1)]


@dataclass(frozen=True, slots=True)
class Mode:
    """The value with the most rows; NULL without a value. Of several, it is the least, or the greatest if `largest`."""

    register: Occurrences
    data_type: pa.DataType
    largest: bool

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        lists, rows = self.register.lists(state[self.register])
        if not len(rows):
            return pa.nulls(len(lists.counts), self.data_type)
        owners = lists.owners
        most = np.zeros(len(lists.counts), np.int64)
        np.maximum.at(most, owners, rows)
        places = np.flatnonzero(rows == most[owners])  # in ascending order of the values of a group
        if not self.largest:
            places = places[::-1]
        chosen = np.zeros(len(lists.counts), np.intp)
        chosen[owners[places]] = places  # the last one of a group stays
        return from_ordered(Values(lists.values.take(chosen).data, lists.counts > 0), self.data_type)


@dataclass(frozen=True, slots=True)
class ValueList:
    """The list of the kept values, in their order; an empty list without a value."""

    register: Distinct | Collected
    result_type: pa.ListType

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        parts = state[self.register]
        lists = unpack(parts if isinstance(self.register, Distinct) else self.register.values_of(parts))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lists.counts)]), pa.int32())
        values = from_ordered(lists.values, self.result_type.value_type)
        return pa.ListArray.from_arrays(offsets, values, type=self.result_type)
