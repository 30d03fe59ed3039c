"""Registers: the primitive, mergeable parts that every aggregate is made of.

A register folds rows into one partial value per group (`from_rows`), and merges partial values (`merge`). The map
side, the sorter's combiner, and the merge of stored state with new records all use these two functions. So batch,
streaming and mixed runs have the same results. Aggregates share equal registers: avg(x) and sum(x) keep one sum.

Invariants (tests/operators/test_registers.py):
  I1  merge(from_rows(a), from_rows(b)) == from_rows(a + b), however the rows are split; doubles up to rounding
  I2  the answer does not depend on the order of the rows: ties in event time are broken by value
  I3  an invertible register fed a row with weight +1 and the same row with weight -1 is unchanged

Sources: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from typing_extensions import override

from mixedmode.operators.aggregate.exact import carried
from mixedmode.operators.aggregate.reduce import Grouping, centred_by, count_by, extreme_by, sum_by, sum_floats_by
from mixedmode.operators.aggregate.values import Argument, Bools, Int64s, Values

Parts = Sequence[Values]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a batch: argument columns by index, and event times (n,) as int64 microseconds, if there are any."""

    arguments: Mapping[int, Argument]
    times_us: Int64s | None = None
    _chosen: dict["Condition", "Rows"] = field(default_factory=dict, compare=False, repr=False)

    def where(self, condition: "Condition") -> "Rows":
        """Return the rows that fulfil `condition`. The result is cached per condition."""
        if condition not in self._chosen:
            rows = condition.holds(self)
            times_us = None if self.times_us is None else self.times_us[rows]
            self._chosen[condition] = Rows(_ChosenArguments(self.arguments, pa.array(rows)), times_us)
        return self._chosen[condition]


@dataclass(frozen=True, slots=True)
class IsTrue:
    """The condition that a boolean argument is true, neither false nor NULL: `filter (where ...)`."""

    argument: int

    def holds(self, rows: Rows) -> Bools:
        """(n,) bool."""
        return rows.arguments[self.argument].is_true


@dataclass(frozen=True, slots=True)
class IsPresent:
    """The condition that an argument is not NULL: for functions of two columns, the other column of the pair."""

    argument: int

    def holds(self, rows: Rows) -> Bools:
        """(n,) bool."""
        argument = rows.arguments[self.argument]
        return np.ones(len(argument.column), np.bool_) if argument.valid is None else argument.valid


Condition = IsTrue | IsPresent


class _ChosenArguments(Mapping[int, Argument]):
    """The arguments of the rows where `mask` is true. Each column is filtered on first access."""

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

    __slots__ = ()

    @property
    @abstractmethod
    def fields(self) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns that hold one value per group: int64, float64 or large_binary."""

    @property
    @abstractmethod
    def is_invertible(self) -> bool:
        """True if a row can be retracted exactly, by adding it with weight -1 (I3)."""

    @property
    @abstractmethod
    def goes_by_time(self) -> bool:
        """True if the register uses the event times of rows."""

    @abstractmethod
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Return the partial values of each group, (grouping.size,) per column, also for groups without rows."""

    @abstractmethod
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """Merge partial values into one per group. `grouping.weights` is None."""


class _Counted(Register):
    """One int64, which is added up."""

    __slots__ = ()
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64."""
        return (pa.int64(),)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return (Values(sum_by(grouping, parts[0].integers)),)


@dataclass(frozen=True, slots=True)
class Count(_Counted):
    """count(*) for `argument` None, else the number of rows where the argument is not NULL."""

    argument: int | None

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        counted = None if self.argument is None else rows.arguments[self.argument].valid
        return (Values(count_by(grouping.where(counted))),)


@dataclass(frozen=True, slots=True)
class CountTrue(_Counted):
    """The number of rows where a boolean argument is true. With Count, it is enough for bool_and and bool_or."""

    argument: int

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        argument = rows.arguments[self.argument]
        is_true = argument.ordered.integers != 0
        return (Values(count_by(grouping.where(is_true if argument.valid is None else is_true & argument.valid))),)


@dataclass(frozen=True, slots=True)
class ExactSum(Register):
    """Sum of integers or decimals in limbs of 32 bits: exact in any order, even where an int64 would overflow."""

    argument: int
    limbs: int
    is_invertible = True
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One int64 per limb, least significant first."""
        return (pa.int64(),) * self.limbs

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Sum the limbs; NULL adds nothing."""
        limbs = rows.arguments[self.argument].limbs
        return tuple(map(Values, carried([sum_by(grouping, limb) for limb in limbs])))

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return tuple(map(Values, carried([sum_by(grouping, part.integers) for part in parts])))


@dataclass(frozen=True, slots=True)
class FloatSum(Register):
    """Sum of doubles. The last bits depend on the order of the additions."""

    argument: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One float64."""
        return (pa.float64(),)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Sum the values; NULL adds nothing."""
        argument = rows.arguments[self.argument]
        floats = argument.floats if argument.valid is None else argument.floats[argument.valid]
        return (Values(sum_floats_by(grouping.where(argument.valid), floats)),)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return (Values(sum_floats_by(grouping, parts[0].floats)),)


@dataclass(frozen=True, slots=True)
class Extreme(Register):
    """Smallest or largest value that is not NULL, in Spark's order (NaN is above every number)."""

    argument: int
    largest: bool
    kind: pa.DataType
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """One column of the argument's ordered form; NULL if no value was seen."""
        return (self.kind,)

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        return (extreme_by(grouping, rows.arguments[self.argument].ordered, largest=self.largest),)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        return (extreme_by(grouping, parts[0], largest=self.largest),)


@dataclass(frozen=True, slots=True)
class Moments(Register):
    """Count, mean and sum of squared deviations of the non-NULL values; merged by Chan's formula."""

    argument: int
    is_invertible = False
    goes_by_time = False

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """Count int64, mean float64, squared deviations float64."""
        return (pa.int64(), pa.float64(), pa.float64())

    @override
    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        argument = rows.arguments[self.argument]
        grouping = grouping.where(argument.valid)
        floats = argument.floats if argument.valid is None else argument.floats[argument.valid]
        means, deviations = centred_by(grouping, floats)
        squares = sum_floats_by(grouping, deviations * deviations)
        return Values(count_by(grouping)), Values(means), Values(squares)

    @override
    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        counts, means, squares = parts[0].integers, parts[1].floats, parts[2].floats
        mean, shift = centred_by(grouping.weighted(counts), means)
        spread = sum_floats_by(grouping, squares + counts * shift * shift)
        return Values(sum_by(grouping, counts)), Values(mean), Values(spread)


@dataclass(frozen=True, slots=True)
class Filtered:  # not a subclass of Register: its field `register` would have ABCMeta.register as default
    """A register restricted to the rows that fulfil `condition`."""

    register: Register
    condition: Condition

    @property
    def fields(self) -> tuple[pa.DataType, ...]:
        """The fields of the inner register."""
        return self.register.fields

    @property
    def is_invertible(self) -> bool:
        """As the inner register: a retracted row fulfils the condition exactly if it did when it was inserted."""
        return self.register.is_invertible

    @property
    def goes_by_time(self) -> bool:
        """As the inner register."""
        return self.register.goes_by_time

    def from_rows(self, grouping: Grouping, rows: Rows) -> tuple[Values, ...]:
        """Aggregate the rows that fulfil the condition."""
        return self.register.from_rows(grouping.where(self.condition.holds(rows)), rows.where(self.condition))

    def merge(self, grouping: Grouping, parts: Parts) -> tuple[Values, ...]:
        """Merge as the inner register does."""
        return self.register.merge(grouping, parts)
