"""Stateless SQL on Arrow: expressions as values, the closed list of what is exact, and how they are computed. Pure."""

from mixedmode.expressions.calls import FUNCTION_CALL, QueryCalls, called_nodes
from mixedmode.expressions.comparisons import RAISE_ERROR
from mixedmode.expressions.evaluate import (
    KINDS,
    can_raise,
    evaluate,
    evaluate_here,
    is_exact,
    is_null_of_null,
    is_partial,
)
from mixedmode.expressions.pruning import Bounds, may_pass
from mixedmode.expressions.structs import NAMED_STRUCT
from mixedmode.expressions.table_rows import TableRows, is_key_type
from mixedmode.expressions.texts import TEXT_PARTS
from mixedmode.expressions.type_names import type_named
from mixedmode.expressions.values import (
    Call,
    Column,
    ColumnFunction,
    Literal,
    Match,
    Node,
    Nodes,
    Query,
    Table,
    Taken,
    Value,
)

__all__ = [
    "FUNCTION_CALL",
    "KINDS",
    "NAMED_STRUCT",
    "RAISE_ERROR",
    "TEXT_PARTS",
    "Bounds",
    "Call",
    "Column",
    "ColumnFunction",
    "Literal",
    "Match",
    "Node",
    "Nodes",
    "Query",
    "QueryCalls",
    "Table",
    "TableRows",
    "Taken",
    "Value",
    "called_nodes",
    "can_raise",
    "evaluate",
    "evaluate_here",
    "is_exact",
    "is_key_type",
    "is_null_of_null",
    "is_partial",
    "may_pass",
    "type_named",
]
