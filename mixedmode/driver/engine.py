"""Everything that a run of a job asks of Spark, as one object: the analysis, the inputs and the executor.

The streaming query itself is not here: it belongs to the frame that `Inputs.stream` returns.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from mixedmode.analysis.job import Analysis, analyse
from mixedmode.config import JobSpec
from mixedmode.driver.inputs import Inputs
from mixedmode.driver.watched import Figures, FiguresOfSpark
from mixedmode.executor.dimensions import Dimensions
from mixedmode.executor.protocol import Executor
from mixedmode.executor.spark import SparkExecutor
from mixedmode.plan.keyed_operators import Where
from mixedmode.spark.active_session import active_in_job
from mixedmode.spark.workers import check_workers
from mixedmode.time.window_range import WindowRange

__all__ = ["Engine"]


@dataclass(frozen=True, slots=True)
class Engine:
    """Spark, as a run uses it. A test that runs jobs without Spark passes a subclass (RunOptions.engine)."""

    session: SparkSession

    def active(self) -> AbstractContextManager[None]:
        """Make the session the active one of this thread during a block."""
        return active_in_job(self.session)

    def check(self) -> None:
        """Raise InvalidJobError if tasks cannot run here."""
        check_workers(self.session)

    def analyse(self, spec: JobSpec, where: Where, *, within: WindowRange | None = None) -> Analysis:
        """Return the plan of a job, and its opened sources. Raise InvalidJobError with every problem.

        within: windows of event time over records get only the records in this range of time.
        """
        with self.active():
            return analyse(self.session, spec, where, within=within)

    def inputs(self, spec: JobSpec, analysis: Analysis) -> Inputs:
        """Return the inputs of a job."""
        return Inputs(self.session, spec, analysis.plan, analysis.sources)

    def executor(self, analysis: Analysis) -> Executor[DataFrame]:
        """Return what runs the epochs of the frames of `inputs`."""
        return SparkExecutor(self.session, Dimensions(analysis.dimensions), analysis.sources)

    def figures(self) -> Figures | None:
        """Return the figures of an epoch's tasks while they run; None if the executor has none."""
        return FiguresOfSpark(self.session)
