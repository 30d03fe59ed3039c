"""The operations on a whole job in Python: run it, check it, steer it. The modules that they need load when called."""

import threading
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from mixedmode.config.arguments import of_type, place_of
from mixedmode.config.graph import MAIN_OUTPUT
from mixedmode.config.outside_texts import shown_value
from mixedmode.config.spec import JobSpec
from mixedmode.connectors.calls import FileName
from mixedmode.errors import InvalidJobError
from mixedmode.job.results import JobResult, RunTotals

if TYPE_CHECKING:
    from mixedmode.driver.events import Observer

__all__ = ["JobOperations"]


class JobOperations:
    """The operations on a job, besides building it. `Job` is the only subclass."""

    __slots__ = ()

    @property
    @abstractmethod
    def spec(self) -> JobSpec:
        """Return the whole job.  Raises InvalidJobError if it is not valid."""

    @abstractmethod
    def where(self, *path: str | int) -> str:
        """Return the start of a message about a setting."""

    def run(
        self,
        *,
        until: Literal["stopped", "idle", "drained"] = "stopped",
        observers: "Sequence[Observer]" = (),
        stop: threading.Event | None = None,
        serve: str | int | None = None,
    ) -> JobResult:
        """Run the job in this process, as `mixedmode run` does. Return when the job ends, or after `stop` is set.

        The result counts this run's epochs and records, and reads the tables of the outputs.

        until: `stopped` runs a live job until it is stopped. `idle` returns once all input that is present is
            processed. `drained` does the same, and then ends the input for good.
        observers: functions of one event (mixedmode.driver.events): of each epoch, of the flip, and so on.
        stop: an event that stops the job.
        serve: [HOST:]PORT of an HTTP server beside the run.

        Raises InvalidJobError before anything is committed, or another error of mixedmode.errors that says what to do.
        Call `run` again to resume the job.
        """
        from mixedmode.serve.beside import run_served  # noqa: PLC0415 - Spark is loaded only to run

        of_type(stop, threading.Event | None, "Job.run: stop", "a threading.Event")
        _check_observers(observers, "Job.run")
        totals, started = RunTotals(), time.perf_counter()
        run_served(self.spec, self.where, until, [*observers, totals], stop, serve)
        return totals.result(self.spec, time.perf_counter() - started)

    def backfill(
        self, start: str, end: str, *, outputs: Sequence[str] = (), observers: "Sequence[Observer]" = ()
    ) -> int:
        """Compute the windows from `start` to `end` again, and replace their rows in each output at once.

        The same as `mixedmode run JOB --from START --to END`; the job may run meanwhile. Return the number of new rows.

        start, end: bounds of windows, as times with their offset from UTC. outputs: names of outputs; (): all of them.
        observers: see `run`.

        Raises InvalidJobError, with the reason, if that cannot be done exactly; then nothing was replaced.
        """
        from mixedmode.driver.backfill import backfill, backfill_range  # noqa: PLC0415 - Spark is loaded only to run
        from mixedmode.driver.run import RunOptions  # noqa: PLC0415

        _check_observers(observers, "Job.backfill")
        windows = backfill_range(start, end)
        found = backfill(self.spec, self.where, windows, RunOptions(observers=observers), outputs)
        return sum(one.rows for one in found)

    def validate(self, *, connect: bool = False) -> dict[str, pa.Schema]:
        """Check the job, its SQL and its columns, as `mixedmode validate` does.

        Return {output: its columns} of the outputs of whole steps; the output of `write` is `sink`.

        connect: also ask Kafka for its topics, and databases for a login.

        This starts Spark, and runs nothing. Raises InvalidJobError, with every mistake, for a job that cannot run.
        """
        from mixedmode.driver.planning import plan_job  # noqa: PLC0415 - Spark is loaded only to plan

        of_type(connect, bool, "Job.validate: connect", "True or False")
        results = plan_job(self.spec, self.where, connects=connect).plan.results
        return {name or MAIN_OUTPUT: pa.schema(list(result.fields)) for name, result in results.items()}

    def explain(self) -> str:
        """Return the plan of the job as text, as `mixedmode explain` shows it. Raises as `validate` does."""
        from mixedmode.driver.planning import plan_job  # noqa: PLC0415 - Spark is loaded only to plan
        from mixedmode.plan.explain import explain_plan  # noqa: PLC0415

        planned = plan_job(self.spec, self.where)
        return explain_plan(self.spec, planned.plan, cores=planned.cores)

    def rescale(self, parallelism: int | None, *, step: str | None = None) -> None:
        """Ask the job, wherever it runs, to use another parallelism from its next epoch on, without waiting for it.

        parallelism: number of subtasks; None withdraws all earlier requests.
        step: the step to rescale; by default every keyed step.

        Raises InvalidJobError, with the reason, if the request cannot be met.
        """
        from mixedmode.driver.rescale_requests import ask_to_rescale  # noqa: PLC0415 - the store is loaded only to use it

        of_type(parallelism, int | None, "Job.rescale: parallelism", "a whole number, or None")
        of_type(step, str | None, "Job.rescale: step", "the name of a step")
        ask_to_rescale(self.spec, parallelism, step=step)

    def create_savepoint(self, place: FileName) -> None:
        """Keep the newest checkpoint as a savepoint in `place`, a folder or URL of its own, wherever the job runs.

        Raises InvalidJobError if there is no checkpoint yet. See docs/savepoints.md.
        """
        from mixedmode.driver.savepoints import take_savepoint  # noqa: PLC0415 - the store is loaded only to use it

        take_savepoint(self.spec, place_of(place, "Job.create_savepoint: place"))

    def restore_savepoint(
        self, place: FileName, *, allow_dropped_state: bool = False, moved: Mapping[str, str] | None = None
    ) -> None:
        """Fill the job's empty checkpoint folder from a savepoint, so that `run` continues from it.

        place: the savepoint's folder or URL.
        allow_dropped_state: drop the state of steps that this job does not have.
        moved: {old folder: new folder} of input files that were moved since.

        Raises InvalidJobError, with the reason, if the job cannot continue from this savepoint.
        """
        from mixedmode.driver.restoring import restore_savepoint  # noqa: PLC0415 - Spark is loaded only to plan

        of_type(allow_dropped_state, bool, "Job.restore_savepoint: allow_dropped_state", "True or False")
        of_type(moved, Mapping | None, "Job.restore_savepoint: moved", "a dictionary, such as {'/data': '/lake'}")
        folder = place_of(place, "Job.restore_savepoint: place")
        restore_savepoint(folder, self.spec, self.where, allow_dropped=allow_dropped_state, moved=moved)

    def import_state(self, place: FileName) -> None:
        """Fill the job's empty checkpoint folder from the checkpoint of a query of Spark Structured Streaming.

        `run` then continues where the query has stopped: with its sources, its state and its watermark.
        place: the checkpointLocation of the query, which was stopped. Nothing is changed there.

        Raises InvalidJobError, with the reason, if the job cannot continue from it. docs/import-state.md is the guide.
        """
        from mixedmode.driver.importing import import_state  # noqa: PLC0415 - Spark is loaded only to plan

        import_state(place_of(place, "Job.import_state: place"), self.spec, self.where)


def _check_observers(observers: object, call: str) -> None:
    if not isinstance(observers, list | tuple) or not all(map(callable, observers)):
        msg = f"{call}: observers must be a list of functions of an event. found={shown_value(observers)}"
        raise InvalidJobError(msg)
