"""The plan of a job, without running it."""

from dataclasses import dataclass

from mixedmode.config import JobSpec
from mixedmode.job.keyed_operators import Where
from mixedmode.job.plan import JobPlan
from mixedmode.runtime.analysis import analyse
from mixedmode.runtime.session import cores, open_session


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A plan, and how many subtasks can run at once where it would run."""

    plan: JobPlan
    cores: int


def plan_job(spec: JobSpec, where: Where) -> PlannedJob:
    """Checks everything that can be checked before data is read. Raises InvalidJobError with the place."""
    session = open_session(spec)
    return PlannedJob(analyse(session, spec, where).plan, cores(session))
