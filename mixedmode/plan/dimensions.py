"""The dimensions that the sql of a plan joins. Pure.

A dimension has another version in each epoch, and a streaming query has one plan for all epochs. So sql that joins a
dimension runs when the epoch begins, and not in the query.
"""

from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.reads import SqlText

__all__ = ["dimensions_of", "joining_texts", "joins_sources"]


def joins_sources(plan: JobPlan) -> bool:
    """Return whether a reader of sources joins a dimension. Then the query has the rows of the sources as they are."""
    readers = [stage.reads for stage in plan.maps[:1]] or [plan.reader(entry)[0] for entry in plan.entries]
    return any(reads.dimensions for reads in readers)


def dimensions_of(plan: JobPlan) -> frozenset[str]:
    """Return the names of all dimensions that a job joins."""
    return frozenset(name for text in joining_texts(plan) for name in text.dimensions)


def joining_texts(plan: JobPlan) -> list[SqlText]:
    """Return the sql steps of a job that join dimensions."""
    reads = [stage.reads for stage in plan.maps] + [stage.reads for stage in plan.stages]
    reads += [result.reads for result in plan.results.values()]
    return list({text.makes: text for one in reads for text in one.sql if text.dimensions}.values())
