"""Keyed aggregates (count, sum, min, max, avg, ...) as mergeable registers, vectorised over whole batches."""

from operators.aggregate.aggregator import Aggregator, aggregator_for, argument_name
from operators.aggregate.changes import KeyedChanges
from operators.aggregate.functions import AggregateFunction, Column, aggregate_function
from operators.aggregate.multiset import MultisetAggregateOperator
from operators.aggregate.operator import AggregateOperator
from operators.aggregate.upsert import UpsertOperator

__all__ = [
    "AggregateFunction",
    "AggregateOperator",
    "Aggregator",
    "Column",
    "KeyedChanges",
    "MultisetAggregateOperator",
    "UpsertOperator",
    "aggregate_function",
    "aggregator_for",
    "argument_name",
]
