"""Measures the progress of the sources in tasks that do nothing else, for stages that begin at the same time.

A stage has to know the event times of the whole epoch before it fires. Where one stage reads sources, its own tasks
measure them. Where several do, none can wait for another, so these tasks measure first (JobPlan.measures_first).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.tasks.failures import report_failures
from mixedmode.tasks.numbers import TaskNumbers, numbers_from_spark
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.reports import SubtaskReport, report_batch
from mixedmode.tasks.watching import Watch

__all__ = ["MeasureTask"]


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Measures the progress in rows that only show it (tasks/watching.py). Called by Spark."""

    watch: Watch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one report."""
        return self.run(batches, numbers_from_spark())

    def run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        """Measure as the task with these numbers, and yield one report."""
        return report_failures(self._run(batches, numbers), report_batch)

    def _run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        progress = Progress()
        for batch in batches:
            _, seen = self.watch.split(pa.Table.from_batches([batch]))
            progress = progress.merged(seen)
        yield report_batch(SubtaskReport(numbers.partition, progress).encode())
