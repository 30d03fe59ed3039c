"""Map functions: a user's code over rows without a key, with one list of state per subtask."""

from mixedmode.operators.map.function import MapContext, MapFunction
from mixedmode.operators.map.operator import KeptList, MapDeclaration, MapOperator
from mixedmode.operators.map.reference import LocalMap, MapReference, MapSource

__all__ = [
    "KeptList",
    "LocalMap",
    "MapContext",
    "MapDeclaration",
    "MapFunction",
    "MapOperator",
    "MapReference",
    "MapSource",
]
