"""A kernel: how one kind of call is computed on Arrow arrays, and where the result is the one of Spark."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.expressions.values import Call, Literal, Node, Value
from mixedmode.keys.arrow import from_buffer

__all__ = ["ANSI", "UTC", "Kernel", "has_types", "integers", "is_literal", "like", "never", "same_types"]

ANSI, UTC = "ANSI", "UTC"
Numbers = npt.NDArray[Any]
_CODES = {8: "i1", 16: "i2", 32: "i4", 64: "i8"}


def never(_call: Call, _arguments: Sequence[Node]) -> bool:
    """Return False: a kernel raises for no value."""
    return False


@dataclass(frozen=True, slots=True)
class Kernel:
    """The computation of one kind of call.

    `compute`: of a call and its arguments, at least one of which is an array. It raises pa.ArrowInvalid where Spark
    raises an error. `accepts`: whether the result is Spark's for these types, options and constants. `raises`: whether
    a value may raise. `order`: the order in which Spark evaluates two arguments; the second is not evaluated where the
    first is NULL. `takes_null`: all arguments are evaluated, and the result may be a value where one is NULL.
    `is_partial`: for some values it raises LeftToSparkError, as only Spark computes them; text that is not UTF-8 is
    not counted, since hardly any job has such text. `column`: the number of the
    argument that is made an array if all of them are constants.
    """

    compute: Callable[[Call, Sequence[Value]], Value]
    accepts: Callable[[Call, Sequence[Node]], bool]
    raises: Callable[[Call, Sequence[Node]], bool] = never
    right_first: bool = False
    takes_null: bool = False
    is_partial: bool = False
    column: int = 0


def integers(value: Value) -> Numbers:
    """Return a column of a type of fixed width as whole numbers (n,), or a constant as one; any number where NULL."""
    if isinstance(value, pa.Scalar):
        one: Numbers = integers(pa.repeat(value, 1))[0]
        return one
    code = _CODES[value.type.bit_width]
    return from_buffer(value.buffers()[1], code, count=len(value), start=value.offset)


def like(numbers: Numbers, data_type: pa.DataType, *values: Value) -> pa.Array:
    """Return numbers as a column of a type with the same width, which is NULL where one of `values` is."""
    is_null = np.zeros(len(numbers), np.bool_)
    for value in values:
        if isinstance(value, pa.Array) and value.null_count:
            is_null |= value.is_null().to_numpy(zero_copy_only=False)
    array = pa.array(numbers, mask=is_null if is_null.any() else None)
    return array if array.type == data_type else array.view(data_type)


def is_literal(node: Node) -> bool:
    """Return whether a node is a constant that is not NULL."""
    return isinstance(node, Literal) and node.value is not None


def same_types(arguments: Sequence[Node]) -> bool:
    """Return whether all arguments have one type."""
    return all(argument.data_type == arguments[0].data_type for argument in arguments)


def has_types(*allowed: Callable[[pa.DataType], bool]) -> Callable[[Call, Sequence[Node]], bool]:
    """Return a check that each argument has a type that one of these functions allows."""
    return lambda _call, arguments: all(any(allow(one.data_type) for allow in allowed) for one in arguments)
