"""Keyed aggregates (count, sum, min, max, avg, ...) as mergeable registers, vectorised over whole batches."""

from operators.aggregate.aggregator import Aggregator, aggregator_for, argument_name
from operators.aggregate.changes import OP_COLUMN, WEIGHT_COLUMN, KeyedChanges
from operators.aggregate.functions import AggregateFunction, aggregate_function
from operators.aggregate.multiset import MultisetAggregateOperator
from operators.aggregate.operator import AggregateOperator
from operators.aggregate.upsert import UpsertOperator

__all__ = [
    "OP_COLUMN",
    "WEIGHT_COLUMN",
    "AggregateFunction",
    "AggregateOperator",
    "Aggregator",
    "KeyedChanges",
    "MultisetAggregateOperator",
    "UpsertOperator",
    "aggregate_function",
    "aggregator_for",
    "argument_name",
]
