"""Aggregates over event-time windows, over sessions, and over a fixed number of records of a key."""

from mixedmode.operators.window.count_windows import CountWindowAggregateOperator
from mixedmode.operators.window.output import WINDOW_BOUNDS
from mixedmode.operators.window.sessions import SessionAggregateOperator
from mixedmode.operators.window.time_windows import TimeWindowAggregateOperator

__all__ = ["WINDOW_BOUNDS", "CountWindowAggregateOperator", "SessionAggregateOperator", "TimeWindowAggregateOperator"]
