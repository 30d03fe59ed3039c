"""Metrics of the scans of running queries, in their current epochs."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["scan_metric"]


def scan_metric(session: SparkSession, name: str) -> int | None:
    """Return the sum of a metric over the scans of the session's queries, whose tasks have ended.

    None if no scan has it: no query runs, or Spark has planned the scans anew while they ran (adaptive execution).
    """
    found = [metrics.apply(name).value() for metrics in _metrics(session) if metrics.contains(name)]
    return sum(found) if found else None


def _metrics(session: SparkSession) -> Iterator[Any]:
    """Yield {name: metric} of each scan."""
    sessions: Any = session._jsparkSession  # noqa: SLF001 - PySpark has no public name for the plan of a query
    for query in sessions.streams().active():
        epoch = query.streamingQuery().lastExecution()
        if epoch is None:
            continue
        leaves = epoch.executedPlan().collectLeaves()
        for number in range(leaves.size()):
            yield leaves.apply(number).metrics()
