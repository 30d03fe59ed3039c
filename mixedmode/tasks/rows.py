"""Writes rows that no keyed step writes to the staging folder of their sink: one file per epoch and partition."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.types import Epoch, Generation
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.crash_points import TaskPlace, reach_in_task
from mixedmode.operators.interface import AppendedRows
from mixedmode.sinks.files import OutputWriter, SinkTask
from mixedmode.sort import joined
from mixedmode.tasks.failures import report_failures
from mixedmode.tasks.numbers import TaskNumbers, numbers_from_spark
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.reports import SubtaskReport, report_batch
from mixedmode.tasks.watching import Watch
from mixedmode.time import Seen

#: how much is written at once, as one row group of a Parquet file; Spark's batches are smaller
WRITE_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class RowsTask:
    """Writes the rows of one partition. Called by Spark.

    `output`: the name of the output. `has_op`: its rows have the column `_op`. `counted_as`: the name under which the
    rows count as records; None: they do not. `watch`: measures the progress of the sources in rows that only show it.
    """

    sink: SinkTask
    epoch: Epoch
    generation: Generation
    fields: tuple[pa.Field, ...]
    output: str
    has_op: bool = True
    counted_as: str | None = None
    watch: Watch | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and yield one report."""
        return self.run(batches, numbers_from_spark())

    def run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        """Write the rows as the task with these numbers, and yield one report."""
        return report_failures(self._run(batches, numbers), report_batch)

    def _run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("rows-"))
            uploads = stack.enter_context(Uploads())
            unique = paths.attempt(self.generation, uuid.uuid4().hex[:16])
            writer = OutputWriter(self.sink, self.epoch, numbers.partition, folder, uploads, unique, self.output)
            count, progress = 0, Progress()
            for table in joined((pa.Table.from_batches([batch]) for batch in batches), WRITE_BYTES):
                rows, seen = (table, Progress()) if self.watch is None else self.watch.split(table)
                progress = progress.merged(seen)
                count += rows.num_rows
                typed = rows.select([field.name for field in self.fields]).cast(pa.schema(list(self.fields)))
                writer.write(AppendedRows(typed).upserts() if self.has_op else typed)
            outputs = writer.finish()
            reach_in_task("runs-stored", TaskPlace(self.epoch, "rows", numbers.partition, numbers.attempt))
            if self.counted_as is not None:
                progress = progress.merged(Progress(count, splits={(self.counted_as, ""): Seen(count, None)}))
            report = SubtaskReport(numbers.partition, progress, rows_out=count, outputs=outputs)
            yield report_batch(report.encode())
