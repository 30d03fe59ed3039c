"""The order of `top` and `deduplicate` in plain Python: stable sorts, one per column, from the last to the first."""

from collections.abc import Sequence
from typing import Any

from tests.operators.oracle import order_of

Row = tuple[Any, ...]
#: (column of the row, descending, NULLs first)
By = tuple[int, bool, bool]


def in_order(rows: Sequence[Row], by: Sequence[By]) -> list[Row]:
    """Rows by the columns of `by`, ties by the whole row, ascending, NULL first. -0.0 and 0.0 are a tie in `by`."""
    width = len(rows[0]) if rows else 0
    found = list(rows)
    for column in range(width - 1, -1, -1):
        found = _sorted(found, column, descending=False, nulls_first=True, zeros_tie=False)
    for column, descending, nulls_first in reversed(by):
        found = _sorted(found, column, descending=descending, nulls_first=nulls_first, zeros_tie=True)
    return found


def _sorted(rows: list[Row], column: int, *, descending: bool, nulls_first: bool, zeros_tie: bool) -> list[Row]:
    nulls = [row for row in rows if row[column] is None]
    others = [row for row in rows if row[column] is not None]
    others.sort(key=lambda row: _order(row[column], zeros_tie=zeros_tie), reverse=descending)
    return [*nulls, *others] if nulls_first else [*others, *nulls]


def _order(value: Any, *, zeros_tie: bool) -> Any:
    return order_of(value + 0.0 if zeros_tie and isinstance(value, float) else value)
