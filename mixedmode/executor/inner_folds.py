"""Decides whether the subtasks of a stage run the map side of the stage that reads it (tasks/inner_reads.py). Pure."""

from mixedmode.operators.join import LEFT, RIGHT, JoinBase
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.stages import KeyedStage

__all__ = ["folding_reader"]


def folding_reader(plan: JobPlan, operator_id: str) -> KeyedStage | None:
    """Return the stage whose map side runs in the subtasks of another stage, which it reads; None if there is none.

    It is the only reader, and its tasks compute the sql in between. A join whose map side may leave out rows without a
    partner is none, because it needs the keys of the other side first (executor/partners.py).
    """
    readers = [name for name, reads in plan.readers.items() if operator_id in reads.stages]
    if len(readers) != 1 or operator_id not in plan.inner.get(readers[0], {}):
        return None
    _, stage = plan.reader(readers[0])
    if stage is None:
        return None
    operator = stage.operator
    may_thin = isinstance(operator, JoinBase) and any(operator.drops_alone(side) for side in (LEFT, RIGHT))
    return None if may_thin else stage
