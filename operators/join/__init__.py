"""Operators of two inputs: joins."""

from mixedmode.operators.join.as_of import AsOfJoinOperator
from mixedmode.operators.join.base import JoinBase
from mixedmode.operators.join.conditions import Condition
from mixedmode.operators.join.interval import IntervalJoinOperator
from mixedmode.operators.join.layout import LEFT, RIGHT, TIME_TYPE, JoinLayout, OutputColumn, Sides
from mixedmode.operators.join.regular import RegularJoinOperator

__all__ = [
    "LEFT",
    "RIGHT",
    "TIME_TYPE",
    "AsOfJoinOperator",
    "Condition",
    "IntervalJoinOperator",
    "JoinBase",
    "JoinLayout",
    "OutputColumn",
    "RegularJoinOperator",
    "Sides",
]
