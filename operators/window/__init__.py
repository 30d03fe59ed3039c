"""Aggregates over windows of event time, over sessions, and over every so many records of a key."""

from operators.window.count_windows import CountWindowAggregateOperator
from operators.window.sessions import SessionAggregateOperator
from operators.window.time_windows import TimeWindowAggregateOperator

__all__ = ["CountWindowAggregateOperator", "SessionAggregateOperator", "TimeWindowAggregateOperator"]
