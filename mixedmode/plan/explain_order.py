"""The lines of `explain` on the order within an epoch: which steps run at the same time, and what the others wait for.

An executor begins a reader when all stages that it reads have ended (executor/epoch_run.py). So readers that wait for
the same stages begin together.
"""

from collections.abc import Iterator, Sequence

from mixedmode.plan.job_plan import JobPlan, entry_of

__all__ = ["order_lines"]


def order_lines(plan: JobPlan) -> Iterator[str]:
    """Yield the order in which an epoch runs the steps of a graph, and the outputs that no step writes."""
    names = {entry_of(name): f"output {name}" for name in plan.rows_results}
    waves: dict[tuple[str, ...], list[str]] = {}
    for reader, reads in plan.readers.items():
        waves.setdefault(tuple(sorted(reads.stages)), []).append(names.get(reader, reader))
    if len(plan.readers) < 2:
        return
    yield "order in an epoch"
    if plan.measures_first:
        then = "; the steps begin when that is known" if plan.strategies else ""
        yield f"  event times how far the sources have come is measured by tasks of their own{then}"
    for stages, readers in waves.items():
        begins = f"when {_listed(stages)} {'has' if len(stages) == 1 else 'have'} ended: " if stages else "at once: "
        together = ", at the same time" if len(readers) > 1 else ""
        yield f"  begins      {begins}{_listed(readers)}{together}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
