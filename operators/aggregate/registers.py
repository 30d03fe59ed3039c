"""Registers: the primitive, mergeable parts that every aggregate is made of.

The one idea: a register folds rows into one partial value per group (`from_rows`) and partial values into fewer
(`merge`). The same two functions serve the map side, the sorter's combiner, and old state meeting new records, so
batch, streaming and mixed runs cannot drift apart. Aggregates share equal registers: avg(x) and sum(x) keep one sum.

Invariants (tests/operators/test_registers.py):
  I1  merge(from_rows(a), from_rows(b)) == from_rows(a + b), however the rows are split; doubles up to rounding
  I2  the answer does not depend on the order of the rows: records with equal event time are told apart by value
  I3  an invertible register fed a row with weight +1 and the same row with weight -1 is as before

Sources: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.reduce import Grouping, centred_by, count_by, extreme_by, sum_by, sum_floats_by
from mixedmode.operators.aggregate.values import LIMB_BITS, LIMB_MASK, Argument, Bools, Int64s, Values

Parts = Sequence[Values]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a batch: argument columns by index, and their event times (n,) int64 in microseconds, if any."""

    arguments: Mapping[int, Argument]
    times_us: Int64s | None = None
    _chosen: dict["Condition", "Rows"] = field(default_factory=dict, compare=False, repr=False)

    def where(self, condition: "Condition") -> "Rows":
        """The rows that fulfil `condition`; found once per condition."""
        if condition not in self._chosen:
            rows = condition.holds(self)
            times_us = None if self.times_us is None else self.times_us[rows]
            self._chosen[condition] = Rows(_ChosenArguments(self.arguments, pa.array(rows)), times_us)
        return self._chosen[condition]


@dataclass(frozen=True, slots=True)
class IsTrue:
    """The boolean argument is true, so neither false nor NULL: `filter (where ...)`."""

    argument: int

    def holds(self, rows: Rows) -> Bools:
        """(n,) bool."""
        return rows.arguments[self.argument].is_true


@dataclass(frozen=True, slots=True)
class IsPresent:
    """The argument is not NULL: the other half of a pair, for functions of two columns."""

    argument: int

    def holds(self, rows: Rows) -> Bools:
        """(n,) bool."""
        argument = rows.arguments[self.argument]
        return np.ones(len(argument.column), np.bool_) if argument.valid is None else argument.valid


Condition = IsTrue | IsPresent


class _ChosenArguments(Mapping[int, Argument]):
    """Arguments of the rows where `mask` is true; a column is cut when it is first asked for."""

    def __init__(self, arguments: Mapping[int, Argument], mask: pa.BooleanArray) -> None:
        self._arguments = arguments
        self._mask = mask
        self._cut: dict[int, Argument] = {}

    def __getitem__(self, index: int) -> Argument:
        if index not in self._cut:
            self._cut[index] = Argument(self._arguments[index].column.filter(self._mask))
        return self._cut[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)


class Register(Protocol):
    """One mergeable part of an aggregate. Implementations are frozen dataclasses: equal registers are shared."""

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns that hold one value per group: int64, float64 or large_binary."""

    @property
    def is_invertible(self) -> bool:
        """True when a row can be taken back exactly by giving it the weight -1 (I3)."""

    @property
    def goes_by_time(self) -> bool:
        """True when it looks at the event times of rows."""

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Partial values of each group, (grouping.size,) per column; also of a group that has no row."""

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """Partial values of each group from partial values; `grouping.weights` is None."""


@dataclass(frozen=True, slots=True)
class Count:
    """count(*) for `argument` None, else the number of rows where the argument is not NULL."""

    argument: int | None
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64."""
        return (pa.int64(),)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        counted = None if self.argument is None else rows.arguments[self.argument].valid
        return (Values(count_by(grouping.where(counted))),)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return (Values(sum_by(grouping, _ints(parts[0]))),)


@dataclass(frozen=True, slots=True)
class CountTrue:
    """Rows where a boolean argument is true; with Count it answers bool_and and bool_or."""

    argument: int
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64."""
        return (pa.int64(),)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        argument = rows.arguments[self.argument]
        is_true = _ints(argument.ordered) != 0
        return (Values(count_by(grouping.where(is_true if argument.valid is None else is_true & argument.valid))),)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return (Values(sum_by(grouping, _ints(parts[0]))),)


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Sum of integers or decimals in limbs of 32 bits: exact whatever the order, also where an int64 would overflow."""

    argument: int
    limbs: int
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64 per limb, least significant first."""
        return (pa.int64(),) * self.limbs

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register. NULL adds nothing."""
        limbs = rows.arguments[self.argument].limbs
        return _carried([sum_by(grouping, limb) for limb in limbs])

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return _carried([sum_by(grouping, _ints(part)) for part in parts])


@dataclass(frozen=True, slots=True)
class FloatSum:
    """Sum of doubles. The last bits depend on the order of the additions."""

    argument: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One float64."""
        return (pa.float64(),)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register. NULL adds nothing."""
        argument = rows.arguments[self.argument]
        floats = argument.floats if argument.valid is None else argument.floats[argument.valid]
        return (Values(sum_floats_by(grouping.where(argument.valid), floats)),)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return (Values(sum_floats_by(grouping, _floats(parts[0]))),)


@dataclass(frozen=True, slots=True)
class Extreme:
    """Smallest or largest value that is not NULL, in Spark's order (NaN above every number)."""

    argument: int
    largest: bool
    kind: pa.DataType
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One column of the argument's ordered form; NULL when no value was seen."""
        return (self.kind,)

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        return (extreme_by(grouping, rows.arguments[self.argument].ordered, largest=self.largest),)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return (extreme_by(grouping, parts[0], largest=self.largest),)


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, mean and sum of squared deviations of the values that are not NULL; merged by Chan's formula."""

    argument: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Count int64, mean float64, squared deviations float64."""
        return (pa.int64(), pa.float64(), pa.float64())

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        argument = rows.arguments[self.argument]
        grouping = grouping.where(argument.valid)
        floats = argument.floats if argument.valid is None else argument.floats[argument.valid]
        means, deviations = centred_by(grouping, floats)
        squares = sum_floats_by(grouping, deviations * deviations)
        return Values(count_by(grouping)), Values(means), Values(squares)

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        counts, means, squares = _ints(parts[0]), _floats(parts[1]), _floats(parts[2])
        mean, shift = centred_by(grouping.weighted(counts), means)
        spread = sum_floats_by(grouping, squares + counts * shift * shift)
        return Values(sum_by(grouping, counts)), Values(mean), Values(spread)


@dataclass(frozen=True, slots=True)
class Filtered:
    """A register over the rows that fulfil `condition`."""

    register: Register
    condition: Condition

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Those of the register."""
        return self.register.fields

    @property
    def is_invertible(self) -> bool:
        """As the register: a row that is taken back fulfils the condition exactly if it did when it was given."""
        return self.register.is_invertible

    @property
    def goes_by_time(self) -> bool:
        """As the register."""
        return self.register.goes_by_time

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """See Register."""
        return self.register.from_rows(grouping.where(self.condition.holds(rows)), rows.where(self.condition))

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """See Register."""
        return self.register.merge(grouping, parts)


def _ints(values: Values) -> Int64s:
    assert isinstance(values.data, np.ndarray), "int64 register column"
    return values.data.astype(np.int64, copy=False)


def _floats(values: Values) -> "np.typing.NDArray[np.float64]":
    assert isinstance(values.data, np.ndarray), "float64 register column"
    return values.data.astype(np.float64, copy=False)


def _carried(limbs: list[Int64s]) -> tuple[Values, ...]:
    """Carries propagated, so that every limb but the last is in [0, 2**32) again."""
    carry = np.zeros_like(limbs[0])
    normal = []
    for limb in limbs[:-1]:
        whole = limb + carry
        normal.append(Values(whole & LIMB_MASK))
        carry = whole >> LIMB_BITS
    return (*normal, Values(limbs[-1] + carry))
