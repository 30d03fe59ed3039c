"""The types of arguments that the aggregate functions accept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate.calls import Column
from mixedmode.operators.row_columns import has_order, is_scalar, is_storable

__all__ = ["Arguments", "check_arguments"]


#: the types of a function that takes values with parts, too: of its argument, and of the column that orders it
_ACCEPTED: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    **dict.fromkeys(("min", "max", "count_distinct", "approx_count_distinct", "collect_set"), (has_order,)),
    **dict.fromkeys(("mode", "mode_descending"), (has_order,)),
    **dict.fromkeys(("first", "last", "collect_list"), (is_storable,)),
    **dict.fromkeys(("min_by", "max_by"), (is_storable, has_order)),
}
_NUMERIC = frozenset(
    {
        "sum",
        "avg",
        "sum_distinct",
        "avg_distinct",
        "var_pop",
        "var_samp",
        "stddev_pop",
        "stddev_samp",
        "median",
        "percentile",
        "percentile_disc",
        "percentile_disc_descending",
        "skewness",
        "kurtosis",
    }
)
_MEASURED = frozenset({"approx_percentile", "approx_median"})
_BOOLEAN = frozenset({"bool_and", "bool_or", "count_if"})
_WHOLE = frozenset({"bit_and", "bit_or", "bit_xor"})
_TIMED = frozenset({"first", "last"})
_OF_PAIRS = ("corr", "covar", "regr")  # how functions of two numbers begin


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, as `aggregate_function` takes them."""

    argument: int
    data_type: pa.DataType
    by: Column | None
    parameters: tuple[float, ...]
    has_event_time: bool
    where: str


def check_arguments(function: str, call: Arguments) -> None:
    """Raise InvalidJobError, beginning with the place of the call, if the function does not accept its arguments."""
    where = call.where
    types = (call.data_type, *([] if call.by is None else [call.by.data_type]))
    if function in _WHOLE and not pa.types.is_integer(call.data_type):
        msg = (
            f"{where}: {function} needs a whole number, and its argument is not one. Cast it in a sql step, for "
            f"example CAST(x AS BIGINT). type={call.data_type}"
        )
        raise InvalidJobError(msg)
    if function.startswith(_OF_PAIRS) and not all(map(_is_numeric, types)):
        msg = (
            f"{where}: {function} needs two numbers, and its arguments are not both numbers. Cast them in a sql step, "
            f"for example CAST(x AS DOUBLE). types={', '.join(map(str, types))}"
        )
        raise InvalidJobError(msg)
    if function in _NUMERIC and not _is_numeric(call.data_type):
        msg = (
            f"{where}: {function} needs a number, and its argument is not one. Cast it in a sql step, for example "
            f"CAST(x AS DOUBLE). type={call.data_type}"
        )
        raise InvalidJobError(msg)
    if function in _MEASURED and not (_is_numeric(call.data_type) or _is_time(call.data_type)):
        msg = (
            f"{where}: {function} needs a number, a date or a timestamp, and its argument is none. Cast it in a sql "
            f"step, for example CAST(x AS DOUBLE). type={call.data_type}"
        )
        raise InvalidJobError(msg)
    if function in _BOOLEAN and not pa.types.is_boolean(call.data_type):
        msg = f"{where}: {function} needs a boolean, and its argument is not one. type={call.data_type}"
        raise InvalidJobError(msg)
    if function in _TIMED and not call.has_event_time:
        msg = (
            f"{where}: {function} goes by event time, and this step's input has none. Set `event-time` on the source, "
            "and keep that column in the sql steps before this one; the result of a keyed step has no event time."
        )
        raise InvalidJobError(msg)
    for data_type, takes in zip(types, _ACCEPTED.get(function, (is_scalar, is_scalar)), strict=False):
        if not takes(data_type):
            msg = (
                f"{where}: {function} does not take values of this type. Cast the argument in a sql step, for example "
                f"CAST(x AS STRING), or name a field of it. type={data_type}"
            )
            raise InvalidJobError(msg)


def _is_numeric(data_type: pa.DataType) -> bool:
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    return bool(is_number)


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_date32(data_type) or pa.types.is_timestamp(data_type))
