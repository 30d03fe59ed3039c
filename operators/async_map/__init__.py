"""Asynchronous map functions: a user's code asks a service for the answers to requests, many at a time."""

from mixedmode.operators.async_map.calls import CallSettings
from mixedmode.operators.async_map.function import (
    ASYNC_MAP_FUNCTION,
    AsyncMapFunction,
    RefusedRequestError,
    Request,
    problem_of,
)
from mixedmode.operators.async_map.operator import AsyncMapOperator

__all__ = [
    "ASYNC_MAP_FUNCTION",
    "AsyncMapFunction",
    "AsyncMapOperator",
    "CallSettings",
    "RefusedRequestError",
    "Request",
    "problem_of",
]
