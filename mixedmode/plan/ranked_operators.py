"""Makes the operators of `top` and `deduplicate` steps, from the step and the columns of its input. Pure: no Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.config import DeduplicateStep, OrderBy, TopStep
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.top import OrderColumn, RowLayout, TopOperator
from mixedmode.plan.fingerprint import Fingerprint, ranked_fingerprint
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.row_keys import RowKey
from mixedmode.plan.stored_types import unordered, unstorable

EVENT_TIME = OrderColumn(pa.int64(), descending=False, nulls_first=True)


@dataclass(frozen=True, slots=True)
class RankedColumns:
    """The columns that the operator of a `top` or `deduplicate` step reads.

    `keys`: the key columns, () for all rows. `row`: {expression: column} of the other columns of the input. `order`:
    the expression and type of each order column; an expression of `row` is computed once. `row_key`: the columns of the
    input that no two of its rows share, if a `top` passes them on (see RowKey).
    """

    keys: tuple[pa.Field, ...]
    row: Mapping[str, pa.Field]
    order: Sequence[tuple[str, pa.DataType]]
    row_key: RowKey = None

    @property
    def arguments(self) -> dict[str, pa.DataType]:
        """{expression: type} of the arguments of a batch, those of the row first."""
        return {**{text: field.type for text, field in self.row.items()}, **dict(self.order)}

    @property
    def order_arguments(self) -> tuple[int, ...]:
        """The index of each order column among the arguments."""
        texts = list(self.arguments)
        return tuple(texts.index(text) for text, _ in self.order)

    def layout(self, order: Sequence[OrderColumn]) -> RowLayout:
        """Return the layout of a packed row."""
        return RowLayout(KeySchema(self.keys), tuple(order), tuple(self.row.values()))


def orders_of(step: TopStep | DeduplicateStep, event_time: str | None) -> tuple[OrderBy, ...]:
    """Return the expressions by which a step orders rows.  event_time: the event-time column of its input.

    `keep: first` and `keep: any` order by event time first, which is no expression there: a batch has the times.
    """
    if isinstance(step, TopStep):
        return step.top.order_by
    descending = step.deduplicate.keep == "last"
    newest = [event_time] if descending and event_time is not None else []
    columns = [*newest, *step.deduplicate.tie_break]
    return tuple(OrderBy(column, descending=descending, nulls_first=not descending) for column in columns)


def top_operator(step: TopStep, columns: RankedColumns, *, is_changelog: bool) -> TopOperator:
    """Return the operator of a step with `top`."""
    return _best(step.top.order_by, columns, step.top.n, is_changelog=is_changelog, has_rank=True)


def deduplicate_operator(
    step: DeduplicateStep, columns: RankedColumns, where: Where, *, event_time: str | None, is_changelog: bool
) -> DeduplicateOperator | TopOperator:
    """Return the operator of a step with `deduplicate`. Raise InvalidJobError if nothing says which row is kept."""
    if step.deduplicate.keep == "last":
        orders = orders_of(step, event_time)
        if not orders:
            msg = (
                f"{where('deduplicate', 'tie-break')} is missing: this step's input has no event time, so nothing says "
                "which row is the last. Name the columns that do, the greatest is kept, or set `event-time` on every "
                "source."
            )
            raise InvalidJobError(msg)
        return _best(orders, columns, 1, is_changelog=is_changelog, has_rank=False)
    if step.goes_by_watermark and event_time is None:
        msg = (
            f"{where('deduplicate')}: it goes by event time, and this step's input has none. Set `event-time` on every "
            "source, or on the process step before this one, and keep that column in the sql between."
        )
        raise InvalidJobError(msg)
    time = [] if event_time is None else [EVENT_TIME]
    ties = [OrderColumn(data_type, descending=False, nulls_first=True) for _, data_type in columns.order]
    return DeduplicateOperator(
        columns.layout([*time, *ties]),
        columns.order_arguments,
        waits=step.deduplicate.keep == "first",
        within_us=None if step.deduplicate.within_ms is None else 1000 * step.deduplicate.within_ms,
        has_event_time=event_time is not None,
    )


def check_types(columns: RankedColumns, where: str) -> None:
    """Raise InvalidJobError, beginning with `where`, for a column that cannot be stored or ordered by."""
    for problem in (*unordered(columns.order, where), *unstorable(columns.row.values(), where)):
        raise problem


def ranked_identity(
    step: TopStep | DeduplicateStep, columns: RankedColumns, orders: Sequence[OrderBy], *, is_changelog: bool
) -> Fingerprint:
    """Return the fingerprint of a step with `top` or `deduplicate`, without the part on its input."""
    row = list(columns.row.values())
    order = [(text, by.descending, by.nulls_first) for (text, _), by in zip(columns.order, orders, strict=True)]
    return ranked_fingerprint(step, columns.keys, row, order, is_changelog=is_changelog)


def _best(
    orders: Sequence[OrderBy], columns: RankedColumns, n: int, *, is_changelog: bool, has_rank: bool
) -> TopOperator:
    order = [
        OrderColumn(data_type, by.descending, by.nulls_first)
        for by, (_, data_type) in zip(orders, columns.order, strict=True)
    ]
    return TopOperator(columns.layout(order), columns.order_arguments, n, is_changelog, has_rank)
