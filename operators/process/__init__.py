"""Process functions: a user's code per key, with state and timers, in the backlog and live."""

from operators.process.context import Context, Record, Timers
from operators.process.descriptions import incompatibilities
from operators.process.failures import DEAD_LETTER_FIELDS, DEAD_LETTER_TAG, SKIPPED_TAG, OnError
from operators.process.function import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    OpenContext,
    RecordAttributes,
    Rows,
)
from operators.process.maps import MapState
from operators.process.operator import ProcessOperator
from operators.process.reference import FunctionReference, FunctionSource, LocalFunction
from operators.process.states import AggregatingState, ListState, ReducingState, ValueState
from operators.process.ttl import Ttl

__all__ = [
    "DEAD_LETTER_FIELDS",
    "DEAD_LETTER_TAG",
    "SKIPPED_TAG",
    "AggregatingState",
    "Context",
    "FunctionReference",
    "FunctionSource",
    "KeyedBatchProcessFunction",
    "KeyedProcessFunction",
    "ListState",
    "LocalFunction",
    "MapState",
    "OnError",
    "OpenContext",
    "ProcessOperator",
    "Record",
    "RecordAttributes",
    "ReducingState",
    "Rows",
    "Timers",
    "Ttl",
    "ValueState",
    "incompatibilities",
]
