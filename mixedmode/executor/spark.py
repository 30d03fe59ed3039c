"""Runs epochs on Spark: one by one (epoch_run.py), and again where Spark or a dimension has changed in between."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import LeftToSparkError
from mixedmode.executor.dimensions import Dimensions, unstable
from mixedmode.executor.epoch_inputs import files_of, rows_in_files
from mixedmode.executor.epoch_run import EpochRun
from mixedmode.executor.input_frames import input_frame
from mixedmode.executor.protocol import EpochResult, EpochTask
from mixedmode.executor.rows_between import computed_twice_again
from mixedmode.sources.source import OpenSource
from mixedmode.spark.errors import raised_by_query
from mixedmode.tasks.inner_rows import COMPUTED_TWICE

_logger = logging.getLogger(__name__)
#: how often the stages of an epoch are repeated if rows between them were computed twice, or a dimension has changed
_REPEATS = 3
_LEFT_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs epochs on Spark. The input of an epoch is the frame of a micro-batch (see `input_frame`).

    `left_to_spark`: the newest epochs in a row whose files tasks could not read themselves.
    """

    session: SparkSession
    dimensions: Dimensions = field(default_factory=lambda: Dimensions({}))
    sources: Mapping[str, OpenSource] = field(default_factory=dict)
    left_to_spark: list[Epoch] = field(default_factory=list)

    def run_epoch(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        """Run the stages of one epoch. If tasks cannot read its files themselves, run them again on Spark's rows.

        After several such epochs in a row, later ones run on Spark's rows only.
        """
        if rows is None or not task.plan.direct:
            return self._run(task, rows)
        if len(self.left_to_spark) < _LEFT_IN_A_ROW:
            try:
                result = self._run(task, rows)
            except LeftToSparkError as error:
                _logger.info("Spark reads the files of epoch %d, as tasks cannot: %s", task.epoch, error)
                if task.epoch not in self.left_to_spark:  # an epoch may be repeated
                    self.left_to_spark.append(task.epoch)
            else:
                self.left_to_spark.clear()
                return result
        by_spark = replace(task, plan=replace(task.plan, direct={}))
        found = input_frame(rows.sparkSession, by_spark.plan, self._rows_of_files(task, rows))
        return self._run(by_spark, found if task.plan.is_all_listed else rows.unionByName(found))

    def _rows_of_files(self, task: EpochTask, rows: DataFrame) -> dict[str, DataFrame]:
        """Return the rows of each source that are in the files of an epoch which tasks read, by Spark; no others."""
        files, session = files_of(task), rows.sparkSession
        return {
            name: rows_in_files(self.sources[name], task.plan.listed.get(name), files.get(name, ()), session)
            for name in task.plan.sources_read
        }

    def _run(self, task: EpochTask, rows: DataFrame | None) -> EpochResult:
        """Run the stages of one epoch, with the newest version of each dimension.

        If rows between two stages were computed twice, or a dimension has changed meanwhile, run them again.
        """
        # a micro-batch belongs to the session of its query, which has the settings and views of that query
        session = self.session if rows is None else rows.sparkSession
        changes: Mapping[str, str] = {}
        for is_last in [False] * _REPEATS + [True]:
            read = self.dimensions.newest(session)
            try:
                result = EpochRun(session, task, read).result(rows)
            except (PySparkException, Py4JError) as error:
                changes = read.reasons()
                if changes and is_last:
                    raise unstable(changes, _REPEATS + 1) from error
                if not (changes or raised_by_query(error, COMPUTED_TWICE)):
                    raise
                if is_last:
                    raise computed_twice_again(_REPEATS + 1) from error
                continue
            changes = read.changes()
            if not changes:
                return replace(result, dimensions=read.names)
        raise unstable(changes, _REPEATS + 1)
