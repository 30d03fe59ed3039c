"""Arithmetic in Spark's ANSI mode: an overflow or a division by zero is an error.

A sum, difference or product of decimals is computed only if its type has room for every result. So nothing is rounded.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.expressions.kernels import ANSI, Kernel, Numbers, integers, like, same_types
from mixedmode.expressions.values import Call, Literal, Node, Value

__all__ = ["ARITHMETIC"]

_DIGITS_MAX = 38
_ZERO = "division by zero"


def _is_ansi(call: Call) -> bool:
    return call.options == (ANSI,)


def _is_integer(node: Node) -> bool:
    return bool(types.is_signed_integer(node.data_type))


def _is_float(node: Node) -> bool:
    return node.data_type in (pa.float32(), pa.float64())


def _has_room(call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether the type of a decimal result is the one that needs no rounding, and that Arrow uses too."""
    left, right = (one.data_type for one in arguments)
    if not (types.is_decimal128(left) and types.is_decimal128(right)):
        return False
    if call.kind == "Multiply":
        digits, scale = left.precision + right.precision + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    return bool(digits <= _DIGITS_MAX and call.data_type == pa.decimal128(digits, scale))


def _accepts(call: Call, arguments: Sequence[Node]) -> bool:
    plain = same_types(arguments) and (_is_integer(arguments[0]) or _is_float(arguments[0]))
    return _is_ansi(call) and (plain or _has_room(call, arguments))


def _overflows(_call: Call, arguments: Sequence[Node]) -> bool:
    return _is_integer(arguments[0])


def _basic(checked: Callable[..., Value], unchecked: Callable[..., Value]) -> Kernel:
    """Return the kernel of +, - or *."""
    return Kernel(
        lambda _call, given: (checked if types.is_integer(given[0].type) else unchecked)(given[0], given[1]),
        _accepts,
        _overflows,
    )


def _unary(checked: Callable[..., Value], unchecked: Callable[..., Value]) -> Kernel:
    return Kernel(
        lambda _call, given: (checked if types.is_integer(given[0].type) else unchecked)(given[0]),
        lambda call, arguments: _is_ansi(call) and (_is_integer(arguments[0]) or _is_float(arguments[0])),
        _overflows,
    )


def _may_be_zero(_call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether a divisor may be 0, or may be -1, by which the least number cannot be divided."""
    divisor = arguments[1]
    return not (isinstance(divisor, Literal) and divisor.value not in (None, 0, -1))


def _check_divisor(left: Value, right: Value) -> None:
    is_zero = pc.equal(right, pa.scalar(0, right.type))
    if pc.any(pc.and_(is_zero, pc.is_valid(left))).as_py():
        raise pa.ArrowInvalid(_ZERO)


def _divide(_call: Call, given: Sequence[Value]) -> Value:
    _check_divisor(*given)
    return pc.divide(*given)


def _divide_whole(_call: Call, given: Sequence[Value]) -> Value:
    _check_divisor(*given)
    return pc.divide_checked(*given)


def remainder(left: Numbers, right: Numbers) -> Numbers:
    """Return the remainders (n,) with the sign of `left`; any number where `right` is 0."""
    if right.ndim == 0 and right > 1:  # numpy divides by a constant without a division
        found = left - (left // right) * right
        floored: Numbers = np.where((left < 0) & (found != 0), found - right, found)
        return floored
    divisor = np.where((right == 0) | (right == -1), right.dtype.type(1), right)  # x % -1 is 0, as x % 1 is
    rest: Numbers = np.fmod(left, divisor)
    return rest


def _remainder(call: Call, given: Sequence[Value]) -> Value:
    _check_divisor(*given)
    return like(_broadcast(remainder(*map(integers, given)), given), call.data_type, *given)


def _positive_remainder(call: Call, given: Sequence[Value]) -> Value:
    _check_divisor(*given)
    numbers = list(map(integers, given))
    data_type = numbers[0].dtype
    left, right = (one.astype(np.promote_types(data_type, np.int32)) for one in numbers)  # Java adds 32 bits or more
    found = remainder(left, right)
    with np.errstate(over="ignore"):  # as in Java, it wraps
        found = np.where(found < 0, remainder(found + right, right), found)
    return like(_broadcast(found.astype(data_type), given), call.data_type, *given)


def _broadcast(found: Numbers, given: Sequence[Value]) -> Numbers:
    return np.broadcast_to(found, (max(len(one) for one in given if isinstance(one, pa.Array)),))


def _accepts_remainder(call: Call, arguments: Sequence[Node]) -> bool:
    return _is_ansi(call) and same_types(arguments) and _is_integer(arguments[0])


def _of_longs(call: Call, arguments: Sequence[Node]) -> bool:
    return _is_ansi(call) and all(one.data_type == pa.int64() for one in arguments)


def _of_doubles(call: Call, arguments: Sequence[Node]) -> bool:
    return _is_ansi(call) and all(one.data_type == pa.float64() for one in arguments)


def _bits(function: Callable[..., Value]) -> Kernel:
    return Kernel(
        lambda _call, given: function(given[0], given[1]),
        lambda _call, arguments: same_types(arguments) and _is_integer(arguments[0]),
    )


ARITHMETIC: Mapping[str, Kernel] = {
    "Add": _basic(pc.add_checked, pc.add),
    "Subtract": _basic(pc.subtract_checked, pc.subtract),
    "Multiply": _basic(pc.multiply_checked, pc.multiply),
    "UnaryMinus": _unary(pc.negate_checked, pc.negate),
    "Abs": _unary(pc.abs_checked, pc.abs),
    "Divide": Kernel(_divide, _of_doubles, _may_be_zero, right_first=True),
    "IntegralDivide": Kernel(_divide_whole, _of_longs, _may_be_zero, right_first=True),
    "Remainder": Kernel(_remainder, _accepts_remainder, _may_be_zero, right_first=True),
    "Pmod": Kernel(_positive_remainder, _accepts_remainder, _may_be_zero, right_first=True),
    "BitwiseAnd": _bits(pc.bit_wise_and),
    "BitwiseOr": _bits(pc.bit_wise_or),
    "BitwiseXor": _bits(pc.bit_wise_xor),
}
