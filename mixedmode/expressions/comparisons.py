"""Comparisons and tests of values. NaN equals NaN and is greater than every number; -0.0 equals 0.0."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.errors import InvalidJobError
from mixedmode.expressions.kernels import Kernel, has_types, is_literal, same_types
from mixedmode.expressions.values import Call, Literal, Node, Value

__all__ = ["COMPARISONS", "RAISE_ERROR", "is_ordered"]

_Binary = Callable[[Value, Value], Value]


def is_ordered(data_type: pa.DataType) -> bool:
    """Return whether Arrow orders the values of a type as Spark does, or `_of_floats` does."""
    simple = (types.is_signed_integer, types.is_boolean, types.is_string, types.is_binary, types.is_date32)
    return any(one(data_type) for one in simple) or _is_number_or_time(data_type)


def _is_number_or_time(data_type: pa.DataType) -> bool:
    several = (types.is_float32, types.is_float64, types.is_decimal128, types.is_timestamp)
    return any(one(data_type) for one in several)


def _is_float(data_type: pa.DataType) -> bool:
    return bool(types.is_floating(data_type))


def _equal(left: Value, right: Value) -> Value:
    found = pc.equal(left, right)
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right))) if _is_float(left.type) else found


def _less(left: Value, right: Value) -> Value:
    found = pc.less(left, right)
    if not _is_float(left.type):
        return found
    return pc.or_(found, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _not_less(left: Value, right: Value) -> Value:
    return pc.invert(_less(left, right)) if _is_float(left.type) else pc.greater_equal(left, right)


def _equal_or_both_null(left: Value, right: Value) -> Value:
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(_equal(left, right), fill_value=False))


def _comparable(_call: Call, arguments: Sequence[Node]) -> bool:
    return same_types(arguments) and is_ordered(arguments[0].data_type)


def _comparison(compare: _Binary, *, takes_null: bool = False) -> Kernel:
    return Kernel(lambda _call, given: compare(given[0], given[1]), _comparable, takes_null=takes_null)


def _is_in(_call: Call, given: Sequence[Value]) -> Value:
    value, *options = given
    known = [one for one in options if one.is_valid]
    # not by values of Python, which has no dates beyond the year 9999
    options_known = pa.concat_arrays([pa.array([], value.type), *(pa.repeat(one, 1) for one in known)])
    found = pc.is_in(value, value_set=options_known)
    is_unknown = pc.is_null(value) if len(known) == len(options) else pc.invert(found)
    return pc.if_else(pc.or_(is_unknown, pc.is_null(value)), pa.scalar(None, pa.bool_()), found)


def _accepts_in(_call: Call, arguments: Sequence[Node]) -> bool:
    constants = all(isinstance(one, Literal) for one in arguments[1:])
    sound = (types.is_signed_integer, types.is_string, types.is_date32)
    return constants and same_types(arguments) and any(one(arguments[0].data_type) for one in sound)


def _greatest(_call: Call, given: Sequence[Value]) -> Value:
    return pc.max_element_wise(*given, skip_nulls=True)


def _least(_call: Call, given: Sequence[Value]) -> Value:
    return pc.min_element_wise(*given, skip_nulls=True)


def _accepts_greatest(_call: Call, arguments: Sequence[Node]) -> bool:
    data_type = arguments[0].data_type
    sound = (types.is_signed_integer, types.is_date32)
    return same_types(arguments) and any(one(data_type) for one in sound)


def _text_test(function: Callable[..., Value]) -> Kernel:
    return Kernel(
        lambda _call, given: function(given[0], pattern=given[1].as_py()),
        lambda call, arguments: is_literal(arguments[1]) and has_types(types.is_string)(call, arguments),
    )


def _raise(_call: Call, given: Sequence[Value]) -> Value:
    raise InvalidJobError(str(given[0][0].as_py()))


#: the kind of `raise_error`; its argument is the text
RAISE_ERROR = "RaiseError"

COMPARISONS: Mapping[str, Kernel] = {
    RAISE_ERROR: Kernel(_raise, lambda _call, arguments: is_literal(arguments[0]), lambda _call, _arguments: True),
    "EqualTo": _comparison(_equal),
    "EqualNullSafe": _comparison(_equal_or_both_null, takes_null=True),
    "LessThan": _comparison(_less),
    "GreaterThan": _comparison(lambda left, right: _less(right, left)),
    "LessThanOrEqual": _comparison(lambda left, right: _not_less(right, left)),
    "GreaterThanOrEqual": _comparison(_not_less),
    "Not": Kernel(lambda _call, given: pc.invert(given[0]), has_types(types.is_boolean)),
    "IsNull": Kernel(lambda _call, given: pc.is_null(given[0]), lambda _call, _arguments: True, takes_null=True),
    "IsNotNull": Kernel(lambda _call, given: pc.is_valid(given[0]), lambda _call, _arguments: True, takes_null=True),
    "IsNaN": Kernel(
        lambda _call, given: pc.fill_null(pc.is_nan(given[0]), fill_value=False), has_types(_is_float), takes_null=True
    ),
    "In": Kernel(_is_in, _accepts_in, takes_null=True),
    "Greatest": Kernel(_greatest, _accepts_greatest, takes_null=True),
    "Least": Kernel(_least, _accepts_greatest, takes_null=True),
    "StartsWith": _text_test(pc.starts_with),
    "EndsWith": _text_test(pc.ends_with),
    "Contains": _text_test(pc.match_substring),
}
