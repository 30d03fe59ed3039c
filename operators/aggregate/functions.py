"""The aggregate functions by name: which registers each one keeps, its result type, and how the result is read off.

Types and NULL rules are Spark's. Two answers are sharper than Spark's on purpose: sums and averages of integers and
decimals are exact whatever the order of the rows, and `first` and `last` depend on event time and value only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.errors import InvalidJobError
from operators.aggregate.registers import (
    Count,
    CountTrue,
    EdgeInTime,
    ExactSum,
    Extreme,
    FloatSum,
    Moments,
    Register,
)
from operators.aggregate.values import (
    LIMB_BITS,
    Bools,
    Int64s,
    Values,
    decimal_column,
    from_ordered,
    has_order,
    limb_count,
    ordered_kind,
)

MAX_DECIMAL_DIGITS = 38
State = Mapping[Register, tuple[Values, ...]]
Integers = npt.NDArray[np.object_]  # Python integers, of any size


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One aggregate of a step: its registers, its result type, and `result`, which reads (g,) results off the state."""

    registers: tuple[Register, ...]
    result_type: pa.DataType
    result: Callable[[State], pa.Array]


def aggregate_function(
    function: str, argument: int | None, argument_type: pa.DataType | None, *, has_event_time: bool, where: str
) -> AggregateFunction:
    """The function `function` over argument column number `argument` (None for count(*)).

    Raises InvalidJobError, beginning with `where`, when the argument's type does not suit the function, or when
    first/last are asked for without an event time.
    """
    if argument is None or argument_type is None or function == "count":
        count = Count(argument)
        return AggregateFunction((count,), pa.int64(), _CountResult(count))
    _check_argument(function, argument_type, has_event_time=has_event_time, where=where)
    return _BUILDERS[function](argument, argument_type)


def _check_argument(function: str, argument_type: pa.DataType, *, has_event_time: bool, where: str) -> None:
    if function in _NUMERIC and not _is_numeric(argument_type):
        msg = (
            f"{where}: {function} needs a number, and its argument is not one. Cast it in a sql step, for example "
            f"CAST(x AS DOUBLE). type={argument_type}"
        )
        raise InvalidJobError(msg)
    if function in _BOOLEAN and not pa.types.is_boolean(argument_type):
        msg = f"{where}: {function} needs a boolean, and its argument is not one. type={argument_type}"
        raise InvalidJobError(msg)
    if function in _TIMED and not has_event_time:
        msg = (
            f"{where}: {function} goes by event time, and this step's input has none. Set `event-time` on the source, "
            "and keep that column in the sql steps before this one; the result of a keyed step has no event time."
        )
        raise InvalidJobError(msg)
    if not has_order(argument_type):
        msg = (
            f"{where}: {function} does not take values of this type. Cast the argument in a sql step, for example "
            f"CAST(x AS STRING), or name a field of it. type={argument_type}"
        )
        raise InvalidJobError(msg)


def _is_numeric(data_type: pa.DataType) -> bool:
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    return bool(is_number)


def _sum(argument: int, data_type: pa.DataType) -> AggregateFunction:
    seen = Count(argument)
    if pa.types.is_floating(data_type):
        floats = FloatSum(argument)
        return AggregateFunction((floats, seen), pa.float64(), _FloatSumResult(floats, seen))
    total = ExactSum(argument, limb_count(data_type))
    result_type = pa.int64()
    if pa.types.is_decimal(data_type):
        result_type = pa.decimal128(min(MAX_DECIMAL_DIGITS, data_type.precision + 10), data_type.scale)
    return AggregateFunction((total, seen), result_type, _ExactSumResult(total, seen, result_type))


def _avg(argument: int, data_type: pa.DataType) -> AggregateFunction:
    seen = Count(argument)
    if pa.types.is_floating(data_type):
        floats = FloatSum(argument)
        return AggregateFunction((floats, seen), pa.float64(), _FloatMean(floats, seen))
    total = ExactSum(argument, limb_count(data_type))
    if pa.types.is_decimal(data_type):
        digits = min(MAX_DECIMAL_DIGITS, data_type.precision + 4)
        result_type = pa.decimal128(digits, min(MAX_DECIMAL_DIGITS, data_type.scale + 4))
        return AggregateFunction((total, seen), result_type, _DecimalMean(total, seen, result_type, data_type.scale))
    return AggregateFunction((total, seen), pa.float64(), _IntegerMean(total, seen))


def _extreme(*, largest: bool) -> Callable[[int, pa.DataType], AggregateFunction]:
    def build(argument: int, data_type: pa.DataType) -> AggregateFunction:
        register = Extreme(argument, largest, ordered_kind(data_type))
        return AggregateFunction((register,), data_type, _OrderedResult(register, data_type))

    return build


def _edge(*, last: bool) -> Callable[[int, pa.DataType], AggregateFunction]:
    def build(argument: int, data_type: pa.DataType) -> AggregateFunction:
        register = EdgeInTime(argument, last, ordered_kind(data_type))
        return AggregateFunction((register,), data_type, _OrderedResult(register, data_type))

    return build


def _moment(*, sample: bool, root: bool) -> Callable[[int, pa.DataType], AggregateFunction]:
    def build(argument: int, data_type: pa.DataType) -> AggregateFunction:
        del data_type  # every number is summed as a double, as Spark does
        register = Moments(argument)
        return AggregateFunction((register,), pa.float64(), _Spread(register, sample=sample, root=root))

    return build


def _boolean(*, every: bool) -> Callable[[int, pa.DataType], AggregateFunction]:
    def build(argument: int, data_type: pa.DataType) -> AggregateFunction:
        del data_type
        true, seen = CountTrue(argument), Count(argument)
        return AggregateFunction((true, seen), pa.bool_(), _BooleanResult(true, seen, every))

    return build


_BUILDERS: Mapping[str, Callable[[int, pa.DataType], AggregateFunction]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(largest=False),
    "max": _extreme(largest=True),
    "first": _edge(last=False),
    "last": _edge(last=True),
    "var_pop": _moment(sample=False, root=False),
    "var_samp": _moment(sample=True, root=False),
    "stddev_pop": _moment(sample=False, root=True),
    "stddev_samp": _moment(sample=True, root=True),
    "bool_and": _boolean(every=True),
    "bool_or": _boolean(every=False),
}
_NUMERIC = frozenset({"sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_BOOLEAN = frozenset({"bool_and", "bool_or"})
_TIMED = frozenset({"first", "last"})


@dataclass(frozen=True, slots=True)
class _CountResult:
    count: Count

    def __call__(self, state: State) -> pa.Array:
        return pa.array(_ints(state, self.count))


@dataclass(frozen=True, slots=True)
class _OrderedResult:
    register: Extreme | EdgeInTime
    data_type: pa.DataType

    def __call__(self, state: State) -> pa.Array:
        return from_ordered(state[self.register][-1], self.data_type)


@dataclass(frozen=True, slots=True)
class _FloatSumResult:
    total: FloatSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        return pa.array(state[self.total][0].data, mask=_ints(state, self.seen) == 0)


@dataclass(frozen=True, slots=True)
class _FloatMean:
    total: FloatSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        seen = _ints(state, self.seen)
        return pa.array(state[self.total][0].data / np.maximum(seen, 1), mask=seen == 0)


@dataclass(frozen=True, slots=True)
class _ExactSumResult:
    """An int64 or decimal sum; InvalidJobError when it does not fit its type, as Spark's ANSI mode fails."""

    total: ExactSum
    seen: Count
    result_type: pa.DataType

    def __call__(self, state: State) -> pa.Array:
        empty = _ints(state, self.seen) == 0
        limbs = _limbs(state, self.total)
        if not pa.types.is_decimal(self.result_type):
            _check_fits(_overflows_int64(limbs), self.result_type, "sum")
            whole = limbs[0] + (limbs[1] << LIMB_BITS)
            return pa.array(whole, mask=empty)
        if self.result_type.precision < MAX_DECIMAL_DIGITS:  # 10 digits of headroom are 10**10 rows
            return decimal_column(_words(limbs), self.result_type, empty)
        whole_numbers = _python_integers(limbs)
        _check_fits(_exceeds(whole_numbers, self.result_type.precision), self.result_type, "sum")
        return decimal_column(_words(limbs), self.result_type, empty)


@dataclass(frozen=True, slots=True)
class _IntegerMean:
    total: ExactSum
    seen: Count

    def __call__(self, state: State) -> pa.Array:
        seen, limbs = _ints(state, self.seen), _limbs(state, self.total)
        total = limbs[1].astype(np.float64) * 2.0**LIMB_BITS + limbs[0]
        return pa.array(total / np.maximum(seen, 1), mask=seen == 0)


@dataclass(frozen=True, slots=True)
class _DecimalMean:
    """sum / count rounded half up to the result's scale, as Spark does."""

    total: ExactSum
    seen: Count
    result_type: pa.DataType
    scale: int

    def __call__(self, state: State) -> pa.Array:
        seen = _ints(state, self.seen)
        shift = 10 ** (self.result_type.scale - self.scale)
        limbs, divisor = _limbs(state, self.total), np.maximum(seen, 1)
        if len(limbs) == 2 and _fits_scaled(limbs, divisor, shift):
            quotient = _half_up((limbs[0] + (limbs[1] << LIMB_BITS)) * shift, divisor)
            return decimal_column(_words_of_int64(quotient), self.result_type, seen == 0)
        rounded = _half_up_python(_python_integers(limbs) * shift, divisor.astype(object))
        _check_fits(_exceeds(rounded, self.result_type.precision), self.result_type, "avg")
        return decimal_column(_words_of_python(rounded), self.result_type, seen == 0)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Variance or standard deviation. NULL without a value, and for a sample of one."""

    register: Moments
    sample: bool
    root: bool

    def __call__(self, state: State) -> pa.Array:
        counts, _, squares = state[self.register]
        divisor = counts.data.astype(np.int64) - (1 if self.sample else 0)
        variance = squares.data / np.maximum(divisor, 1)
        return pa.array(np.sqrt(variance) if self.root else variance, mask=divisor <= 0)


@dataclass(frozen=True, slots=True)
class _BooleanResult:
    true: CountTrue
    seen: Count
    every: bool

    def __call__(self, state: State) -> pa.Array:
        true, seen = _ints(state, self.true), _ints(state, self.seen)
        return pa.array(true == seen if self.every else true > 0, mask=seen == 0)


def _ints(state: State, register: Register) -> Int64s:
    return state[register][0].data.astype(np.int64, copy=False)


def _limbs(state: State, register: ExactSum) -> list[Int64s]:
    return [part.data.astype(np.int64, copy=False) for part in state[register]]


def _overflows_int64(limbs: list[Int64s]) -> Bools:
    overflows: Bools = (limbs[1] >= 2 ** (LIMB_BITS - 1)) | (limbs[1] < -(2 ** (LIMB_BITS - 1)))
    return overflows


def _exceeds(numbers: Integers, digits: int) -> Bools:
    return np.asarray(abs(numbers) >= 10**digits, dtype=np.bool_)


def _check_fits(overflows: Bools, result_type: pa.DataType, function: str) -> None:
    if overflows.any():
        msg = (
            f"{function} is too large for its result type, and a wrong number would be worse than none. "
            "Cast the argument to a wider type in a sql step, for example CAST(x AS DECIMAL(38, 0)) or DOUBLE. "
            f"result_type={result_type}, keys_affected={int(overflows.sum())}"
        )
        raise InvalidJobError(msg)


def _python_integers(limbs: list[Int64s]) -> Integers:
    total: Integers = limbs[-1].astype(object)
    for limb in reversed(limbs[:-1]):
        total = total * 2**LIMB_BITS + limb
    return total


def _half_up(numbers: Int64s, divisor: Int64s) -> Int64s:
    """The quotients, half rounded away from zero. The caller makes sure that every step fits (`_fits_scaled`)."""
    magnitude: Int64s = (2 * np.abs(numbers) + divisor) // (2 * divisor)
    return np.sign(numbers) * magnitude


def _half_up_python(numbers: Integers, divisor: Integers) -> Integers:
    """As `_half_up`, for numbers of any size."""
    magnitude = (2 * abs(numbers) + divisor) // (2 * divisor)
    rounded: Integers = np.where(numbers < 0, -magnitude, magnitude)
    return rounded


def _fits_scaled(limbs: list[Int64s], divisor: Int64s, shift: int) -> bool:
    """Whether 2 * total * shift + divisor stays within an int64 for every group."""
    largest = (int(np.abs(limbs[1]).max(initial=0)) + 1) * 2**LIMB_BITS
    fits: bool = 2 * largest * shift + int(divisor.max(initial=1)) < 2**63
    return fits


def _words(limbs: list[Int64s]) -> npt.NDArray[np.uint64]:
    """Limbs as the (n, 2) two's complement words of a decimal128, low word first."""
    low = (limbs[0] | (limbs[1] << LIMB_BITS)).view(np.uint64)
    if len(limbs) == 2:
        high = (limbs[1] >> LIMB_BITS).view(np.uint64)
    else:
        high = (limbs[2] | (limbs[3] << LIMB_BITS)).view(np.uint64)
    return np.stack([low, high], axis=1)


def _words_of_int64(numbers: Int64s) -> npt.NDArray[np.uint64]:
    return np.stack([numbers.view(np.uint64), (numbers >> 63).view(np.uint64)], axis=1)


def _words_of_python(numbers: Integers) -> npt.NDArray[np.uint64]:
    low = (numbers & (2**64 - 1)).astype(np.uint64)
    high = ((numbers >> 64) & (2**64 - 1)).astype(np.uint64)
    return np.stack([low, high], axis=1)
