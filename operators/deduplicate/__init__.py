"""One row per key: the first by event time, or any. `keep: last` is operators/top with one rank."""

from mixedmode.operators.deduplicate.operator import DeduplicateOperator

__all__ = ["DeduplicateOperator"]
