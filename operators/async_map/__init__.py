"""Asynchronous map functions: a user's code asks a service for the answers to requests, many at a time."""

from mixedmode.operators.async_map.calls import CallSettings
from mixedmode.operators.async_map.function import AsyncMapFunction, RefusedRequestError, Request, problem_of
from mixedmode.operators.async_map.operator import AsyncMapOperator
from mixedmode.operators.async_map.reference import AsyncMapReference, AsyncMapSource

__all__ = [
    "AsyncMapFunction",
    "AsyncMapOperator",
    "AsyncMapReference",
    "AsyncMapSource",
    "CallSettings",
    "RefusedRequestError",
    "Request",
    "problem_of",
]
