"""The aggregate functions by name: the registers, the result type and the result computation of each function.

Types and NULL rules are Spark's. Some results are deliberately better defined than Spark's. Sums and averages of
integers and decimals are exact in any order of the rows. `first`, `last`, `min_by`, `max_by` and the collected lists
depend only on the values of the records, including their event times.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.argument_types import Arguments, check_arguments
from mixedmode.operators.aggregate.bits import BitParity, Bits
from mixedmode.operators.aggregate.calls import AggregateFunction, Column, FunctionCall
from mixedmode.operators.aggregate.collect import Collected, Distinct
from mixedmode.operators.aggregate.counted import Counted, Occurrences
from mixedmode.operators.aggregate.edges import EdgeBy, EdgeInTime
from mixedmode.operators.aggregate.exact import mean_type, sum_type
from mixedmode.operators.aggregate.kept_results import (
    DistinctCount,
    DistinctResult,
    ExactPercentile,
    Mode,
    ValueAtShare,
    ValueList,
)
from mixedmode.operators.aggregate.moment_results import PAIR_FORMULAS, PairResult, Shape, SquareSum
from mixedmode.operators.aggregate.moments import PairMoments, ShapeMoments
from mixedmode.operators.aggregate.registers import (
    Condition,
    Count,
    CountTrue,
    ExactSum,
    Extreme,
    Filtered,
    FloatSum,
    IsPresent,
    IsTrue,
    Moments,
)
from mixedmode.operators.aggregate.results import (
    BooleanResult,
    CountResult,
    DecimalMean,
    EstimatedCount,
    ExactSumResult,
    FilteredResult,
    FloatMean,
    FloatSumResult,
    IntegerMean,
    OrderedResult,
    ParityResult,
    Percentile,
    Spread,
)
from mixedmode.operators.aggregate.sketches import DistinctSketch, QuantileSketch, hll_lg_k, quantile_k
from mixedmode.operators.aggregate.values import limb_count, ordered_kind

#: default second argument of approx_count_distinct: one relative standard deviation of the count, as in Spark
RELATIVE_ERROR = 0.05
#: default third argument of approx_percentile: ranks are off by at most 1/400; a sketch takes up to 26 KB
ACCURACY = 400


def aggregate_function(
    function: str,
    argument: int | None,
    argument_type: pa.DataType | None,
    *,
    has_event_time: bool,
    where: str,
    by: Column | None = None,
    parameters: tuple[float, ...] = (),
    condition: Column | None = None,
) -> AggregateFunction:
    """Return the function `function` over the argument column with index `argument` (None for count(*)).

    `by` is the second column of min_by and max_by, `parameters` are the numbers after the columns, and `condition` is
    the boolean column of `filter (where ...)`.

    Raise InvalidJobError, with a message that begins with `where`, if the function does not accept the type of a
    column, or if `first` or `last` is used without an event time. The error of a sum that is too large begins with it,
    too: several sums of a job may have the same type.
    """
    if argument is None or argument_type is None or function == "count":
        count = Count(argument)
        found = AggregateFunction((count,), pa.int64(), CountResult(count))
    else:
        call = Arguments(argument, argument_type, by, parameters, has_event_time, where)
        check_arguments(function, call)
        found = _BUILDERS[function](call)
    column = None if argument is None or argument_type is None else Column(argument, argument_type)
    called = FunctionCall(function, column, has_event_time, by, parameters, condition)
    if condition is None:
        return replace(found, call=called)
    if not pa.types.is_boolean(condition.data_type):
        msg = f"{where}: the condition of filter must be a boolean, and it is not one. type={condition.data_type}"
        raise InvalidJobError(msg)
    return replace(_filtered(found, IsTrue(condition.index)), call=called)


def _filtered(function: AggregateFunction, condition: Condition) -> AggregateFunction:
    registers = tuple(Filtered(register, condition) for register in function.registers)
    result = FilteredResult(function.result, function.registers, condition)
    return AggregateFunction(registers, function.result_type, result)


_Builder = Callable[[Arguments], AggregateFunction]


def _sum(call: Arguments) -> AggregateFunction:
    seen = Count(call.argument)
    if pa.types.is_floating(call.data_type):
        floats = FloatSum(call.argument)
        return AggregateFunction((floats, seen), pa.float64(), FloatSumResult(floats, seen))
    total = ExactSum(call.argument, limb_count(call.data_type))
    result_type = sum_type(call.data_type)
    return AggregateFunction((total, seen), result_type, ExactSumResult(total, seen, result_type, call.where))


def _avg(call: Arguments) -> AggregateFunction:
    seen = Count(call.argument)
    if pa.types.is_floating(call.data_type):
        floats = FloatSum(call.argument)
        return AggregateFunction((floats, seen), pa.float64(), FloatMean(floats, seen))
    total = ExactSum(call.argument, limb_count(call.data_type))
    if pa.types.is_decimal(call.data_type):
        result_type = mean_type(call.data_type)
        mean = DecimalMean(total, seen, result_type, call.data_type.scale, call.where)
        return AggregateFunction((total, seen), result_type, mean)
    return AggregateFunction((total, seen), pa.float64(), IntegerMean(total, seen))


def _extreme(*, largest: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = Extreme(call.argument, largest, ordered_kind(call.data_type))
        return AggregateFunction((register,), call.data_type, OrderedResult(register, call.data_type))

    return build


def _edge(*, last: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = EdgeInTime(call.argument, last, ordered_kind(call.data_type))
        return AggregateFunction((register,), call.data_type, OrderedResult(register, call.data_type))

    return build


def _moment(*, sample: bool, root: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = Moments(call.argument)  # every number is summed as a double, as Spark does
        return AggregateFunction((register,), pa.float64(), Spread(register, sample=sample, root=root))

    return build


def _boolean(*, every: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        true, seen = CountTrue(call.argument), Count(call.argument)
        return AggregateFunction((true, seen), pa.bool_(), BooleanResult(true, seen, every))

    return build


def _count_distinct(call: Arguments) -> AggregateFunction:
    register = Distinct(call.argument, ordered_kind(call.data_type), limit=None)
    return AggregateFunction((register,), pa.int64(), DistinctCount(register))


def _distinct(builder: _Builder) -> _Builder:
    """Apply a function to each distinct value once. Its state is that of count(distinct x)."""

    def build(call: Arguments) -> AggregateFunction:
        found = builder(call)
        register = Distinct(call.argument, ordered_kind(call.data_type), limit=None)
        result = DistinctResult(register, call.data_type, found.registers, found.result)
        return AggregateFunction((register,), found.result_type, result)

    return build


def _approx_count_distinct(call: Arguments) -> AggregateFunction:
    (relative_error,) = call.parameters or (RELATIVE_ERROR,)
    register = DistinctSketch(call.argument, hll_lg_k(relative_error))
    return AggregateFunction((register,), pa.int64(), EstimatedCount(register))


def _approx_percentile(call: Arguments) -> AggregateFunction:
    fraction, accuracy = call.parameters if len(call.parameters) == 2 else (*call.parameters, ACCURACY)
    is_float = pa.types.is_floating(call.data_type) or ordered_kind(call.data_type) != pa.int64()
    register = QuantileSketch(call.argument, quantile_k(int(accuracy)), is_float)
    return AggregateFunction((register,), call.data_type, Percentile(register, fraction, call.data_type))


def _approx_median(call: Arguments) -> AggregateFunction:
    return _approx_percentile(replace(call, parameters=(0.5,)))


def _percentile(call: Arguments) -> AggregateFunction:
    (fraction,) = call.parameters or (0.5,)  # median has none
    register, data_type = _counted(call)
    return AggregateFunction((register,), pa.float64(), ExactPercentile(register, fraction, data_type))


def _percentile_disc(*, is_descending: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        (fraction,) = call.parameters
        register, data_type = _counted(call)
        return AggregateFunction((register,), pa.float64(), ValueAtShare(register, fraction, data_type, is_descending))

    return build


def _counted(call: Arguments) -> tuple[Counted, pa.DataType]:
    """Return the register of the numbers of an argument, and their type in it."""
    is_float = pa.types.is_floating(call.data_type) or ordered_kind(call.data_type) != pa.int64()
    return Counted(call.argument, is_float), pa.float64() if is_float else call.data_type


def _mode(*, largest: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = Occurrences(call.argument, ordered_kind(call.data_type))
        return AggregateFunction((register,), call.data_type, Mode(register, call.data_type, largest))

    return build


def _bits(*, any_of: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = Bits(call.argument, any_of)
        return AggregateFunction((register,), call.data_type, OrderedResult(register, call.data_type))

    return build


def _bit_xor(call: Arguments) -> AggregateFunction:
    parity, seen = BitParity(call.argument), Count(call.argument)
    return AggregateFunction((parity, seen), call.data_type, ParityResult(parity, seen, call.data_type))


def _count_if(call: Arguments) -> AggregateFunction:
    true = CountTrue(call.argument)
    return AggregateFunction((true,), pa.int64(), CountResult(true))


def _count(call: Arguments) -> AggregateFunction:
    count = Count(call.argument)
    return AggregateFunction((count,), pa.int64(), CountResult(count))


def _square_sum(call: Arguments) -> AggregateFunction:
    register = Moments(call.argument)
    return AggregateFunction((register,), pa.float64(), SquareSum(register))


def _shape(*, is_kurtosis: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        register = ShapeMoments(call.argument)
        return AggregateFunction((register,), pa.float64(), Shape(register, is_kurtosis))

    return build


def _of_pairs(function: str) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        assert call.by is not None, "a function of two columns"
        register = PairMoments(call.argument, call.by.index)
        return AggregateFunction((register,), pa.float64(), PairResult(register, function))

    return build


def _paired(builder: _Builder, *, of_x: bool) -> _Builder:
    """Apply a function to the first column (y) or the second (x), over the rows in which neither is NULL."""

    def build(call: Arguments) -> AggregateFunction:
        assert call.by is not None, "a function of two columns"
        if not of_x:
            return _filtered(builder(call), IsPresent(call.by.index))
        turned = replace(call, argument=call.by.index, data_type=call.by.data_type)
        return _filtered(builder(turned), IsPresent(call.argument))

    return build


def _edge_by(*, largest: bool) -> _Builder:
    def build(call: Arguments) -> AggregateFunction:
        assert call.by is not None, "min_by and max_by have two arguments"
        kinds = (ordered_kind(call.data_type), ordered_kind(call.by.data_type))
        register = EdgeBy(call.argument, call.by.index, largest, *kinds)
        return AggregateFunction((register,), call.data_type, OrderedResult(register, call.data_type))

    return build


def _collect_list(call: Arguments) -> AggregateFunction:
    (limit,) = call.parameters
    register = Collected(call.argument, ordered_kind(call.data_type), int(limit), call.has_event_time)
    result_type = pa.list_(call.data_type)
    return AggregateFunction((register,), result_type, ValueList(register, result_type))


def _collect_set(call: Arguments) -> AggregateFunction:
    (limit,) = call.parameters
    register = Distinct(call.argument, ordered_kind(call.data_type), int(limit))
    result_type = pa.list_(call.data_type)
    return AggregateFunction((register,), result_type, ValueList(register, result_type))


_BUILDERS: Mapping[str, _Builder] = {
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
    "count_distinct": _count_distinct,
    "sum_distinct": _distinct(_sum),
    "avg_distinct": _distinct(_avg),
    "approx_count_distinct": _approx_count_distinct,
    "approx_percentile": _approx_percentile,
    "min_by": _edge_by(largest=False),
    "max_by": _edge_by(largest=True),
    "collect_list": _collect_list,
    "collect_set": _collect_set,
    "median": _percentile,
    "percentile": _percentile,
    "percentile_disc": _percentile_disc(is_descending=False),
    "percentile_disc_descending": _percentile_disc(is_descending=True),
    "mode": _mode(largest=False),
    "mode_descending": _mode(largest=True),
    "approx_median": _approx_median,
    "bit_and": _bits(any_of=False),
    "bit_or": _bits(any_of=True),
    "bit_xor": _bit_xor,
    "count_if": _count_if,
    "skewness": _shape(is_kurtosis=False),
    "kurtosis": _shape(is_kurtosis=True),
    "regr_count": _paired(_count, of_x=False),
    "regr_avgy": _paired(_avg, of_x=False),
    "regr_avgx": _paired(_avg, of_x=True),
    "regr_syy": _paired(_square_sum, of_x=False),
    "regr_sxx": _paired(_square_sum, of_x=True),
    **{name: _of_pairs(name) for name in PAIR_FORMULAS},
}
