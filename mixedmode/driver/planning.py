"""The plan of a job, without running it."""

from dataclasses import dataclass

from mixedmode.analysis.job import analyse
from mixedmode.analysis.problems import collecting, raise_all
from mixedmode.config import FileSinkSpec, JobSpec
from mixedmode.driver.reach import connection_problems, library_problems
from mixedmode.driver.run import output_schemas
from mixedmode.errors import InvalidJobError
from mixedmode.plan.keyed_operators import Where
from mixedmode.plan.stages import MAIN, JobPlan
from mixedmode.sinks.file_sink import columns_problem, file_layout
from mixedmode.sinks.files import SinkTask
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
        found = library_problems(spec, where)
        plan = None
        with collecting(found):
            plan = analyse(session, spec, where).plan
            _check_files(spec, plan, where)
        if connects:
            found += connection_problems(session, spec, where)
        raise_all(found)
        assert plan is not None, spec.name
        return PlannedJob(plan, cores(session))


def _check_files(spec: JobSpec, plan: JobPlan, where: Where) -> None:
    """Raise InvalidJobError for columns that a file output cannot store. A run checks this when it prepares outputs."""
    places = {id(sink): path for path, sink in spec.sinks.items()}
    outputs = {MAIN: spec.sink, **plan.side_sinks}
    for name, schema in output_schemas(plan).items():
        sink = outputs[name]
        if isinstance(sink, FileSinkSpec):
            task = SinkTask(sink.path, sink.format, file_layout(sink))
            problem = columns_problem(task, schema.fields, schema.key_columns)
            if problem is not None:
                msg = f"{where(*places[id(sink)])}: {problem}"
                raise InvalidJobError(msg)
