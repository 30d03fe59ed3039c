"""The best rows of each key, by rank: `top`, and `deduplicate` with `keep: last`."""

from mixedmode.operators.top.operator import TopOperator
from mixedmode.operators.top.rows import OrderColumn, RowLayout

__all__ = ["OrderColumn", "RowLayout", "TopOperator"]
