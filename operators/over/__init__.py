"""The operator of `over` steps: values of each row over the rows before it, by event time."""

from mixedmode.operators.over.columns import OverColumn
from mixedmode.operators.over.operator import KEYS, WAITING, OverOperator

__all__ = ["KEYS", "WAITING", "OverColumn", "OverOperator"]
