"""Functions that are called once for each key and window, with the rows of two inputs as Arrow tables."""

from mixedmode.operators.co_group.function import CoGroupContext, CoGroupFunction, CoGroupReference
from mixedmode.operators.co_group.operator import CoGroupOperator

__all__ = ["CoGroupContext", "CoGroupFunction", "CoGroupOperator", "CoGroupReference"]
