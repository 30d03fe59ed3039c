"""The computation of results from registers: one small, picklable callable per kind of result.

A result takes the state of g groups, and returns an Arrow array (g,). NULL rules are SQL's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa

from mixedmode.operators.aggregate.bits import BitParity, Bits
from mixedmode.operators.aggregate.edges import EdgeBy, EdgeInTime
from mixedmode.operators.aggregate.exact import exact_means, exact_sums, rounded_sums, words_of_python
from mixedmode.operators.aggregate.registers import (
    Condition,
    Count,
    CountTrue,
    ExactSum,
    Extreme,
    Filtered,
    FloatSum,
    Moments,
    Register,
)
from mixedmode.operators.aggregate.sketches import DistinctSketch, QuantileSketch
from mixedmode.operators.aggregate.values import (
    Int64s,
    Values,
    decimal_column,
    from_ordered,
)

State = Mapping[Register, tuple[Values, ...]]


@dataclass(frozen=True, slots=True)
class CountResult:
    """A count; 0 without rows."""

    count: Count | CountTrue

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return pa.array(_ints(state, self.count))


@dataclass(frozen=True, slots=True)
class OrderedResult:
    """A value that the register keeps in its ordered form."""

    register: Extreme | EdgeInTime | EdgeBy | Bits
    data_type: pa.DataType

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return from_ordered(state[self.register][-1], self.data_type)


@dataclass(frozen=True, slots=True)
class FloatSumResult:
    """A sum of doubles; NULL without a value."""

    total: FloatSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return pa.array(state[self.total][0].data, mask=_ints(state, self.seen) == 0)


@dataclass(frozen=True, slots=True)
class FloatMean:
    """A mean of doubles; NULL without a value."""

    total: FloatSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        seen = _ints(state, self.seen)
        return pa.array(state[self.total][0].data / np.maximum(seen, 1), mask=seen == 0)


@dataclass(frozen=True, slots=True)
class ExactSumResult:
    """An int64 or decimal sum. Raise InvalidJobError if it overflows its type, as Spark's ANSI mode does.

    `where`: the place of the call, with which the error begins.
    """

    total: ExactSum
    seen: Count
    result_type: pa.DataType
    where: str

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        empty = _ints(state, self.seen) == 0
        return exact_sums(_limbs(state, self.total), empty, self.result_type, f"{self.where}: sum")


@dataclass(frozen=True, slots=True)
class IntegerMean:
    """A mean of integers: the exact sum as a double, divided by the count; NULL without a value."""

    total: ExactSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        seen, limbs = _ints(state, self.seen), _limbs(state, self.total)
        return pa.array(rounded_sums(limbs) / np.maximum(seen, 1), mask=seen == 0)


@dataclass(frozen=True, slots=True)
class DecimalMean:
    """A mean of decimals: sum / count, rounded half up to the result's scale, as in Spark.

    Raise InvalidJobError if it overflows its type. `where`: as in ExactSumResult.
    """

    total: ExactSum
    seen: Count
    result_type: pa.DataType
    scale: int
    where: str

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        limbs, seen = _limbs(state, self.total), _ints(state, self.seen)
        return exact_means(limbs, seen, self.scale, self.result_type, f"{self.where}: avg")


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance or standard deviation. NULL without a value, and for a sample of one."""

    register: Moments
    sample: bool
    root: bool

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        counts, _, squares = state[self.register]
        divisor = counts.integers - (1 if self.sample else 0)
        variance = squares.data / np.maximum(divisor, 1)
        return pa.array(np.sqrt(variance) if self.root else variance, mask=divisor <= 0)


@dataclass(frozen=True, slots=True)
class BooleanResult:
    """True if every value, or any value, is true; NULL without a value."""

    true: CountTrue
    seen: Count
    every: bool

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        true, seen = _ints(state, self.true), _ints(state, self.seen)
        return pa.array(true == seen if self.every else true > 0, mask=seen == 0)


@dataclass(frozen=True, slots=True)
class ParityResult:
    """The bits that are set in an odd number of values; NULL without a value."""

    parity: BitParity
    seen: Count
    data_type: pa.DataType

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return from_ordered(Values(_ints(state, self.parity), _ints(state, self.seen) != 0), self.data_type)


@dataclass(frozen=True, slots=True)
class EstimatedCount:
    """An estimate of the number of distinct values; 0 without a value."""

    register: DistinctSketch

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return pa.array(self.register.estimates(state[self.register]))


@dataclass(frozen=True, slots=True)
class Percentile:
    """An approximate percentile: `fraction` of the values are at or below it; NULL without a value."""

    register: QuantileSketch
    fraction: float
    result_type: pa.DataType

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        values = self.register.quantiles(state[self.register], self.fraction)
        if not pa.types.is_decimal(self.result_type):
            return from_ordered(values, self.result_type)
        if not self.register.is_float:  # rounding a number of 18 digits to a double may make 19 digits
            greatest = 10**self.result_type.precision - 1
            return from_ordered(Values(np.clip(values.data, -greatest, greatest), values.valid), self.result_type)
        return _as_printed(from_ordered(values, pa.float64()), self.result_type)


@dataclass(frozen=True, slots=True)
class FilteredResult:
    """A result over the rows that fulfil a condition: the `registers` of `result` are kept as `Filtered`."""

    result: Callable[[State], pa.Array]
    registers: tuple[Register, ...]
    condition: Condition

    def __call__(self, state: State) -> pa.Array:
        """Return one value per group."""
        return self.result({register: state[Filtered(register, self.condition)] for register in self.registers})


def _ints(state: State, register: Register) -> Int64s:
    return state[register][0].integers


def _limbs(state: State, register: ExactSum) -> list[Int64s]:
    return [part.integers for part in state[register]]


def _as_printed(doubles: pa.Array, data_type: pa.Decimal128Type) -> pa.Array:
    """Return the decimals as which doubles are printed, as Spark does: of 1.1 it is 1.1, not 1.100000000000000089."""
    greatest = 10**data_type.precision - 1  # the double next to it may be larger
    printed = (Decimal(repr(one)).scaleb(data_type.scale) for one in doubles.fill_null(0.0).to_pylist())
    whole = [max(-greatest, min(int(one.to_integral_value(ROUND_HALF_UP)), greatest)) for one in printed]
    is_null = doubles.is_null().to_numpy(zero_copy_only=False)
    return decimal_column(words_of_python(np.array(whole, np.object_)), data_type, is_null)
