"""Functions that are called once for each key and window, with the rows of two inputs as Arrow tables."""

from mixedmode.operators.co_group.base import CoGroupBase
from mixedmode.operators.co_group.function import CO_GROUP_FUNCTION, CoGroupContext, CoGroupFunction
from mixedmode.operators.co_group.operator import CoGroupOperator
from mixedmode.operators.co_group.sessions import SessionCoGroupOperator

__all__ = [
    "CO_GROUP_FUNCTION",
    "CoGroupBase",
    "CoGroupContext",
    "CoGroupFunction",
    "CoGroupOperator",
    "SessionCoGroupOperator",
]
