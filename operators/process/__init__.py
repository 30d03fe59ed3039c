"""Process functions: a user's code per key, with state and timers, in the backlog and live."""

from mixedmode.operators.process.broadcast import Broadcasts
from mixedmode.operators.process.co_process import CoProcessOperator
from mixedmode.operators.process.context import BroadcastRows, Context, Record, Timers
from mixedmode.operators.process.descriptions import incompatibilities
from mixedmode.operators.process.failures import DEAD_LETTER_FIELDS, DEAD_LETTER_TAG, SKIPPED_TAG, OnError
from mixedmode.operators.process.function import (
    CO_PROCESS_FUNCTION,
    PROCESS_FUNCTION,
    AnyFunction,
    KeyedBatchProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OpenContext,
    RecordAttributes,
    Rows,
)
from mixedmode.operators.process.maps import MapState
from mixedmode.operators.process.operator import ProcessOperator, state_schema_of
from mixedmode.operators.process.states import AggregatingState, ListState, ReducingState, ValueState
from mixedmode.operators.process.ttl import Ttl
from mixedmode.operators.process.versions import BroadcastInput

__all__ = [
    "CO_PROCESS_FUNCTION",
    "DEAD_LETTER_FIELDS",
    "DEAD_LETTER_TAG",
    "PROCESS_FUNCTION",
    "SKIPPED_TAG",
    "AggregatingState",
    "AnyFunction",
    "BroadcastInput",
    "BroadcastRows",
    "Broadcasts",
    "CoProcessOperator",
    "Context",
    "KeyedBatchProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListState",
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
    "state_schema_of",
]
