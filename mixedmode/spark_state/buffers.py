"""The buffers of Spark's aggregate functions as registers. Vectorised: columns in, columns out.

Spark keeps one buffer per call, with columns of fixed names and types: those of avg(x) are `sum double, count bigint`.
Here, calls share registers. So a register may be read from several buffers: from one that has all of it (`exact`), or
from one that has only what its own call needs. For example, sum(x) of Spark does not count rows: its register of the
count is 1 if there is a sum. Nothing else reads that count, because another set of calls is another step.

Source: Sum.scala, Average.scala, Count.scala, CentralMomentAgg.scala, Corr.scala, MaxByAndMinBy.scala of Apache Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import AggregateFunction, Aggregator, FunctionCall
from mixedmode.operators.aggregate.registers import Register
from mixedmode.operators.aggregate.values import Argument, Int64s, integer_limbs, ordered_values

__all__ = ["Buffer", "buffers_of", "registers_of"]

Columns = Sequence[pa.Array]
_DIGITS = 38  # of Spark's largest decimal
_LIMB = 2.0**32


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a register that a buffer has: its columns, and whether that is all of the register."""

    columns: Columns
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Buffer:
    """The buffer of a call. fields: its columns in Spark. parts: returns what they have of each register."""

    function: AggregateFunction
    fields: tuple[pa.Field, ...]
    parts: Callable[[Columns], Sequence[_Part]]


def buffers_of(aggregator: Aggregator, where: str) -> tuple[Buffer, ...]:
    """Return the buffers that Spark keeps for these calls, in their order; one for equal calls.

    Raise InvalidJobError, beginning with `where`, for a function whose buffer has another content than the registers.
    """
    functions = {function.call: function for function in aggregator.outputs.values()}
    names = {function.call: name for name, function in aggregator.outputs.items()}
    buffers = [_buffer(function, names[call], where) for call, function in functions.items()]
    _check_shared(buffers, where)
    return tuple(buffers)


def registers_of(aggregator: Aggregator, buffers: Sequence[Buffer], columns: Columns) -> list[pa.Array]:
    """Return the columns of the registers (n,) from those of all buffers, in the order of `aggregator.state_fields`.

    Raise InvalidJobError for a sum that has overflowed in Spark.
    """
    found: dict[Register, _Part] = {}
    waiting = iter(columns)
    for buffer in buffers:
        own = [next(waiting) for _ in buffer.fields]
        for register, part in zip(buffer.function.registers, buffer.parts(own), strict=True):
            if register not in found or (part.is_exact and not found[register].is_exact):
                found[register] = part
    return [column for register in aggregator.registers for column in found[register].columns]


def _buffer(function: AggregateFunction, name: str, where: str) -> Buffer:
    call = function.call
    assert call is not None, name
    maker = _MAKERS.get(call.function)
    found = None if maker is None else maker(call, function)
    if found is None:
        msg = (
            f"{where}: what Spark keeps for {call.function} cannot be turned into what this job keeps, so the state "
            "cannot be taken over. Leave this output out of both queries, or run the job from the beginning. "
            f"output={name}, function={call.function}, functions={', '.join(sorted(_MAKERS))}"
        )
        raise InvalidJobError(msg)
    return found


def _check_shared(buffers: Sequence[Buffer], where: str) -> None:
    """Raise InvalidJobError if two calls of booleans share a register of which neither buffer has all.

    bool_and(x) and bool_or(x) of Spark have no number of rows, and each would need another one.
    """
    for buffer in buffers:
        for other in buffers:
            if (
                _name(buffer) in _BOOLEANS
                and other is not buffer
                and set(other.function.registers) & set(buffer.function.registers)
            ):
                msg = (
                    f"{where}: bool_and and bool_or are only taken over if no other function counts the same column, "
                    "as Spark does not keep how many rows they have seen. Leave one of them out of both queries, or "
                    f"run the job from the beginning. functions={_name(buffer)}, {_name(other)}"
                )
                raise InvalidJobError(msg)


def _name(buffer: Buffer) -> str:
    assert buffer.function.call is not None, buffer.fields
    return buffer.function.call.function


_Maker = Callable[[FunctionCall, AggregateFunction], Buffer | None]


def _count(_: FunctionCall, function: AggregateFunction) -> Buffer:
    return Buffer(function, (pa.field("count", pa.int64()),), lambda columns: [_Part(columns)])


def _sum(call: FunctionCall, function: AggregateFunction) -> Buffer | None:
    assert call.argument is not None
    kind = call.argument.data_type
    if pa.types.is_floating(kind):
        return Buffer(function, (pa.field("sum", pa.float64()),), _float_sum)
    limbs = len(function.registers[0].fields)
    if pa.types.is_decimal(kind):
        fields = (pa.field("sum", _sum_type(kind)), pa.field("isEmpty", pa.bool_()))
        return Buffer(function, fields, lambda columns: _decimal_sum(columns, limbs))
    return Buffer(function, (pa.field("sum", pa.int64()),), lambda columns: _whole_sum(columns[0], limbs))


def _avg(call: FunctionCall, function: AggregateFunction) -> Buffer | None:
    assert call.argument is not None
    kind, count = call.argument.data_type, pa.field("count", pa.int64())
    limbs = len(function.registers[0].fields)
    if pa.types.is_decimal(kind):

        def decimal_parts(columns: Columns) -> Sequence[_Part]:
            _check_sums(pc.is_null(columns[0]))
            return [_Part(_limbs(columns[0], limbs)), _Part(columns[1:])]

        return Buffer(function, (pa.field("sum", _sum_type(kind)), count), decimal_parts)
    fields = (pa.field("sum", pa.float64()), count)
    if pa.types.is_floating(kind):
        return Buffer(function, fields, lambda columns: [_Part(columns[:1]), _Part(columns[1:])])
    return Buffer(function, fields, lambda columns: [_Part(_limbs_of_floats(columns[0]), False), _Part(columns[1:])])


def _extreme(name: str) -> _Maker:
    def make(call: FunctionCall, function: AggregateFunction) -> Buffer:
        assert call.argument is not None
        field = pa.field(name, call.argument.data_type)
        return Buffer(function, (field,), lambda columns: [_Part([ordered_values(columns[0]).to_arrow()])])

    return make


def _boolean(name: str) -> _Maker:
    def parts(columns: Columns) -> Sequence[_Part]:
        # one row that is true, or one that is false, or none
        is_true, seen = pc.fill_null(columns[0], False), pc.is_valid(columns[0])
        return [_Part([is_true.cast(pa.int64())], False), _Part([seen.cast(pa.int64())], False)]

    return lambda _, function: Buffer(function, (pa.field(name, pa.bool_()),), parts)


def _edge_by(call: FunctionCall, function: AggregateFunction) -> Buffer:
    assert call.argument is not None
    assert call.by is not None
    names = ("valueWithExtremumOrdering", "extremumOrdering")
    types = (call.argument.data_type, call.by.data_type)

    def parts(columns: Columns) -> Sequence[_Part]:
        return [_Part([Argument(columns[1]).normal.to_arrow(), ordered_values(columns[0]).to_arrow()])]

    return Buffer(function, tuple(map(pa.field, names, types)), parts)


def _moments(*names: str, is_exact: bool = True) -> _Maker:
    """Return the maker for buffers of doubles whose first one is the number of rows; further columns of them are 0."""

    def make(_: FunctionCall, function: AggregateFunction) -> Buffer:
        (register,) = function.registers

        def parts(columns: Columns) -> Sequence[_Part]:
            numbers = [columns[0].cast(pa.int64()), *columns[1:]]
            lacking = len(register.fields) - len(numbers)
            nothing = pa.array(np.zeros(len(columns[0])))
            return [_Part([*numbers, *([nothing] * lacking)], is_exact)]

        return Buffer(function, tuple(pa.field(name, pa.float64()) for name in names), parts)

    return make


def _corr(_: FunctionCall, function: AggregateFunction) -> Buffer:
    names = ("n", "xAvg", "yAvg", "ck", "xMk", "yMk")

    def parts(columns: Columns) -> Sequence[_Part]:
        n, mean_x, mean_y, products, squares_x, squares_y = columns
        return [_Part([n.cast(pa.int64()), mean_x, mean_y, squares_x, squares_y, products])]

    return Buffer(function, tuple(pa.field(name, pa.float64()) for name in names), parts)


def _covariance(_: FunctionCall, function: AggregateFunction) -> Buffer:
    names = ("n", "xAvg", "yAvg", "ck")

    def parts(columns: Columns) -> Sequence[_Part]:
        n, mean_x, mean_y, products = columns
        nothing = pa.array(np.zeros(len(n)))
        return [_Part([n.cast(pa.int64()), mean_x, mean_y, nothing, nothing, products], False)]

    return Buffer(function, tuple(pa.field(name, pa.float64()) for name in names), parts)


def _bits(name: str) -> _Maker:
    def make(call: FunctionCall, function: AggregateFunction) -> Buffer:
        assert call.argument is not None

        def parts(columns: Columns) -> Sequence[_Part]:
            bits = columns[0].cast(pa.int64())
            if len(function.registers) == 1:
                return [_Part([bits])]
            seen = pc.is_valid(bits).cast(pa.int64())
            return [_Part([pc.fill_null(bits, 0)]), _Part([seen], False)]

        return Buffer(function, (pa.field(name, call.argument.data_type),), parts)

    return make


def _float_sum(columns: Columns) -> Sequence[_Part]:
    seen = pc.is_valid(columns[0]).cast(pa.int64())
    return [_Part([pc.fill_null(columns[0], 0.0)]), _Part([seen], False)]


def _whole_sum(column: pa.Array, limbs: int) -> Sequence[_Part]:
    return [_Part(_limbs(column, limbs)), _Part([pc.is_valid(column).cast(pa.int64())], False)]


def _decimal_sum(columns: Columns, limbs: int) -> Sequence[_Part]:
    total, is_empty = columns
    _check_sums(pc.and_(pc.is_null(total), pc.invert(is_empty)))
    seen = pc.invert(is_empty).cast(pa.int64())
    return [_Part(_limbs(pc.if_else(is_empty, pa.scalar(None, total.type), total), limbs)), _Part([seen], False)]


def _check_sums(is_lost: pa.Array) -> None:
    """Raise InvalidJobError if Spark has dropped the sum of a group because it was too large."""
    count = pc.sum(is_lost).as_py()
    if not count:
        return
    msg = (
        "a sum of decimals in Spark's state was too large for its type, and Spark has dropped it. The state cannot be "
        f"taken over; run the job from the beginning, with a wider type. sums={count}"
    )
    raise InvalidJobError(msg)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(_DIGITS, kind.precision + 10), kind.scale)


def _limbs(column: pa.Array, count: int) -> list[pa.Array]:
    """Return the limbs of whole numbers or decimals; 0 at NULL."""
    limbs = integer_limbs(column)
    if len(limbs) > count:  # decimals whose sum has more digits: the second limb holds all but the lowest 32 bits
        limbs = (limbs[0], limbs[1] + (limbs[2] << 32))
    return [pa.array(limb) for limb in limbs]


def _limbs_of_floats(column: pa.Array) -> list[pa.Array]:
    """Return the two limbs of whole numbers that Spark has as doubles."""
    floats = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    high = np.floor(floats / _LIMB)
    low: Int64s = (floats - high * _LIMB).astype(np.int64)
    return [pa.array(low), pa.array(high.astype(np.int64))]


_BOOLEANS = frozenset({"bool_and", "bool_or"})
_MAKERS: Mapping[str, _Maker] = {
    "count": _count,
    "count_if": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "min_by": _edge_by,
    "max_by": _edge_by,
    "bool_and": _boolean("min"),
    "bool_or": _boolean("max"),
    **{name: _moments("n", "avg", "m2") for name in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")},
    "skewness": _moments("n", "avg", "m2", "m3", is_exact=False),
    "kurtosis": _moments("n", "avg", "m2", "m3", "m4"),
    "corr": _corr,
    **dict.fromkeys(("covar_pop", "covar_samp"), _covariance),
    **{name: _bits(name) for name in ("bit_and", "bit_or", "bit_xor")},
}
