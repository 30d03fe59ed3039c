"""The plan of a job, without running it."""

from dataclasses import dataclass

from mixedmode.analysis.job import analyse, examine
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config import FaultyJob, JobSpec
from mixedmode.connectors.files.sink import columns_problem, file_layout
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.driver.reach import connection_problems, library_problems, option_problems
from mixedmode.driver.run import output_schemas
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.keyed_operators import Where
from mixedmode.sinks.files import SinkTask
from mixedmode.spark.active_session import active_in_job
from mixedmode.spark.errors import errors_explained
from mixedmode.spark.session import cores, open_session


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A plan, and the number of subtasks that can run at the same time in this session."""

    plan: JobPlan
    cores: int


def plan_job(spec: JobSpec, where: Where, *, connects: bool = False) -> PlannedJob:
    """Return the plan of a job, after all checks that need no data.  connects: also check topics and databases.

    Raise an error that has every problem and its place in the job file.
    """
    with errors_explained("not kept"):
        session = open_session(spec)
        found = [*library_problems(spec, where), *option_problems(session, spec, where)]
        analysis = None
        with active_in_job(session), collecting(found):
            analysis = analyse(session, spec, where)
            _check_files(spec, analysis.plan, where)
        if connects:
            found += connection_problems(session, spec, where)
        raise_all(found)
        assert analysis is not None, spec.name
        return PlannedJob(analysis.plan, cores(session))


def further_mistakes(job: FaultyJob) -> list[MixedmodeError]:
    """Return the mistakes that Spark finds in the valid parts of a job, beyond those that are known already.

    The list is empty if Spark cannot be started: the known mistakes are told without it.
    """
    found: list[MixedmodeError] = []
    if job.parts is not None:
        with collecting(found), errors_explained("not kept"):
            session = open_session(job.parts.spec)
            with active_in_job(session):
                examine(session, job.parts, job.document.where, found)
    return [error for error in found if isinstance(error, InvalidJobError)]


def _check_files(spec: JobSpec, plan: JobPlan, where: Where) -> None:
    """Raise InvalidJobError for columns that a file output cannot store. A run checks this when it prepares outputs."""
    places = {id(sink): path for path, sink in spec.sinks.items()}
    outputs = {**spec.results, **plan.side_sinks}
    for name, schema in output_schemas(plan).items():
        sink = outputs[name]
        if isinstance(sink, FileSinkSpec):
            task = SinkTask(sink.path, sink.format, file_layout(sink))
            problem = columns_problem(task, schema.fields, schema.key_columns)
            if problem is not None:
                msg = f"{where(*places[id(sink)])}: {problem}"
                raise InvalidJobError(msg)
