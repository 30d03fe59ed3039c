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
    """A plan, and how many subtasks can run at once where it would run."""

    plan: JobPlan
    cores: int


def plan_job(spec: JobSpec, where: Where, *, connects: bool = False) -> PlannedJob:
    """Check everything that can be checked before data is read; `connects`: also topics and databases.

    Raises an error with the place of each problem.
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
    """Raises InvalidJobError for columns that an output of files cannot have; a run finds that when it prepares it."""
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
