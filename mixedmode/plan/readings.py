"""Finds how often, and in which order, the streaming query of a job reads its sources. Pure.

Spark's log has a line for each reading, and Spark refuses to go on with other lines. So a query whose tasks read the
files themselves reads as often as one of which Spark reads the rows (executor/input_frames.py).
"""

from collections.abc import Sequence

from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.reads import Reads

__all__ = ["readings"]


def readings(plan: JobPlan) -> Sequence[str] | None:
    """Return the source of each reading, in Spark's order; None if only Spark's plan tells it.

    plan: of a job whose tasks read all sources. The last readings are one of each source, for its progress.
    """
    names = plan.sources_read
    if joins_sources(plan):
        return [*names, *names]
    found: list[str] = []
    for entry in plan.entries:
        of_entry = _readings_of(plan, entry)
        if of_entry is None:
            return None
        found += of_entry
    return [*found, *names]


def _readings_of(plan: JobPlan, entry: str) -> Sequence[str] | None:
    """Return those of one reader of sources. Its relations come one after the other."""
    reads, _ = plan.reader(entry)
    if reads.stages:
        return None
    measures = plan.source_rows is None and entry == plan.measured_by  # then each source has a query for its progress
    queries = {read.source: len(read.queries) - measures for read in plan.direct[entry]}
    if len(reads.sources) == 1:
        return reads.sources * queries[reads.sources[0]]
    sources = [source for relation in reads.relations for source in _sources_of(relation, reads)]
    # with more readings than relations, a relation is a union, whose order only Spark's plan tells
    return sources if sum(queries.values()) == len(sources) == len(reads.relations) else None


def _sources_of(relation: str, reads: Reads) -> list[str]:
    """Return the sources of whose rows a relation is made, each as often as the sql reads it by another name."""
    text = next((text for text in reads.sql if text.makes == relation), None)
    if text is None:
        return [relation]
    return [source for name in text.inputs.values() for source in _sources_of(name, reads)]
