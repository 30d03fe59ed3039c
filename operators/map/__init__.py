"""Map functions: a user's code over rows without a key, with one list of state per subtask."""

from mixedmode.operators.map.function import MAP_FUNCTION, MapContext, MapFunction
from mixedmode.operators.map.operator import KeptList, MapDeclaration, MapOperator

__all__ = [
    "MAP_FUNCTION",
    "KeptList",
    "MapContext",
    "MapDeclaration",
    "MapFunction",
    "MapOperator",
]
