"""Map functions: a user's code over rows of no certain key, with a list per subtask."""

from operators.map.function import MapContext, MapFunction
from operators.map.operator import KeptList, MapDeclaration, MapOperator
from operators.map.reference import LocalMap, MapReference, MapSource

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
