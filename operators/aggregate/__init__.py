"""Keyed aggregates (count, sum, min, max, avg, ...) as mergeable registers, vectorised over whole batches."""

from mixedmode.operators.aggregate.aggregator import Aggregator, aggregator_for, argument_name
from mixedmode.operators.aggregate.calls import AggregateFunction, Column, FunctionCall
from mixedmode.operators.aggregate.changes import KeyedChanges
from mixedmode.operators.aggregate.checked_upsert import CheckedUpsertOperator
from mixedmode.operators.aggregate.functions import aggregate_function
from mixedmode.operators.aggregate.multiset import MultisetAggregateOperator
from mixedmode.operators.aggregate.operator import AggregateOperator
from mixedmode.operators.aggregate.packed_multiset import MultisetAggregator
from mixedmode.operators.aggregate.upsert import UpsertOperator

__all__ = [
    "AggregateFunction",
    "AggregateOperator",
    "Aggregator",
    "CheckedUpsertOperator",
    "Column",
    "FunctionCall",
    "KeyedChanges",
    "MultisetAggregateOperator",
    "MultisetAggregator",
    "UpsertOperator",
    "aggregate_function",
    "aggregator_for",
    "argument_name",
]
