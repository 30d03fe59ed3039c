"""Makes the operator of an `over` step, from the step and the columns of its input. Pure: no Spark."""

from collections.abc import Sequence

import pyarrow as pa

from mixedmode.config import OverStep
from mixedmode.config.calls import column_in
from mixedmode.config.over_calls import OverCall
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.operators.over import OverColumn, OverOperator
from mixedmode.operators.top import OrderColumn
from mixedmode.plan.fingerprint import Fingerprint, over_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.ranked_operators import EVENT_TIME, RankedColumns
from mixedmode.plan.stages import ALL_ROWS

__all__ = ["over_column", "over_identity", "over_operator"]


def over_column(name: str, call: OverCall, columns: RankedColumns, where: str) -> OverColumn:
    """Return the column that a call computes.  columns: what the step reads, without tie-break columns.

    Raise InvalidJobError, beginning with `where`, for a name or a type that does not fit.
    """
    fields = (*columns.keys, *columns.row.values())
    places = {field.name.lower(): place for place, field in enumerate(fields) if field != ALL_ROWS}
    if name.lower() in places:
        msg = f"{where}: the input has a column of this name (case does not count). Choose another."
        raise InvalidJobError(msg)
    place = None
    if call.argument is not None:
        wanted = column_in(call.argument) or call.argument
        place = places.get(wanted.lower())
        if place is None:
            known = [field.name for field in fields if field != ALL_ROWS]
            msg = (
                f"{where}: there is no column {wanted}.{did_you_mean(wanted, known)} Columns here: {', '.join(known)}."
            )
            raise InvalidJobError(msg)
    data_type = None if place is None else fields[place].type
    span_us = None if call.span_ms is None else 1000 * call.span_ms
    frame = (call.first, call.last, call.has_peers)
    default = None if call.default is None or data_type is None else _default(call.default, data_type, where)
    found = OverColumn(name, call.function, place, data_type, *frame, call.ignores_nulls, span_us, default)
    found.check(where)
    return found


def _default(text: str, data_type: pa.DataType, where: str) -> pa.Scalar:
    """Return the default of a `lag` of values of this type. Raise InvalidJobError for a text of another type."""
    of_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if text.startswith("'"):
        fits = pa.types.is_string(data_type)
    elif text.lower() in ("true", "false"):
        fits = pa.types.is_boolean(data_type)
    else:
        fits = any(is_of(data_type) for is_of in of_number)
    try:
        if fits:
            return pa.scalar(text.strip("'")).cast(data_type)
    except pa.ArrowInvalid:
        pass
    msg = (
        f"{where}: the default of lag is no value of its column's type. Write one, or compute it with coalesce in a "
        f"sql step after this one. default={text}, type={data_type}"
    )
    raise InvalidJobError(msg)


def over_operator(
    columns: RankedColumns, computed: Sequence[OverColumn], where: Where, *, event_time: str | None
) -> OverOperator:
    """Return the operator of a step with these computed columns. Raise InvalidJobError without event time."""
    if event_time is None:
        msg = (
            f"{where('over')}: it goes by event time, and this step's input has none. Set `event-time` on every "
            "source, or on the process step before this one, and keep that column in the sql between."
        )
        raise InvalidJobError(msg)
    ties = [OrderColumn(data_type, descending=False, nulls_first=True) for _, data_type in columns.order]
    layout = columns.layout([EVENT_TIME, *ties])
    return OverOperator(layout, columns.order_arguments, tuple(computed), has_key=ALL_ROWS not in columns.keys)


def over_identity(step: OverStep, columns: RankedColumns) -> Fingerprint:
    """Return the fingerprint of a step, without the part on its input."""
    calls = {name: str(call) for name, call in step.over.columns.items()}
    return over_fingerprint(columns.keys, calls, list(columns.row.values()), [text for text, _ in columns.order])
