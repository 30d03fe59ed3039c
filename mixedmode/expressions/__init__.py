"""Stateless SQL on Arrow: expressions as values, the closed list of what is exact, and how they are computed. Pure."""

from mixedmode.expressions.evaluate import KINDS, can_raise, evaluate, is_exact
from mixedmode.expressions.values import Call, Column, Literal, Node, Nodes, Query

__all__ = ["KINDS", "Call", "Column", "Literal", "Node", "Nodes", "Query", "can_raise", "evaluate", "is_exact"]
