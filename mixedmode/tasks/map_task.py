"""One subtask of a map stage in one epoch. Input: rows and its list; output: rows and a report with the new list.

Runs in Spark's Python workers. It writes no files: the list goes to the driver with the report, and into the manifest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from mixedmode.crash_points import TaskPlace, reach_in_task
from mixedmode.operators.map import KeptList, MapContext, MapOperator
from mixedmode.state.lists import Lists, check_size
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.failures import report_failures
from mixedmode.tasks.inner_rows import ATTEMPT_FIELD, subtask_number, with_report_column
from mixedmode.tasks.numbers import TaskNumbers, numbers_from_spark
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.rebalance import PROGRESS
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport

__all__ = ["MapTask"]


@dataclass(frozen=True, slots=True)
class MapTask:
    """Everything that a subtask needs in one epoch. Called by Spark.

    `lists`: for each subtask, its list after the previous epoch. Their number is the parallelism. `tells_attempt`:
    the rows carry the id of their attempt (inner_rows.py).
    """

    operator: MapOperator
    epoch: Epoch
    is_backlog: bool
    clock_ms: int
    watermark_us: int
    lists: Lists
    tells_attempt: bool = False

    @property
    def output_schema(self) -> pa.Schema:
        """Return the schema of the output: the columns of the rows, and the report in the last column."""
        rows = [field.with_nullable(True) for field in self.operator.output_fields]  # NULL in the row of a report
        return pa.schema([*rows, *([ATTEMPT_FIELD] * self.tells_attempt), pa.field(REPORT_COLUMN, pa.binary())])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the subtask. Spark calls this once per partition, also for an empty one."""
        return self.run(batches, numbers_from_spark())

    def run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        """Run the subtask as the task with these numbers. Yield its rows and a report."""
        return report_failures(self._run(batches, numbers), self._report_batch)

    def _run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        subtask = subtask_number(numbers.partition, len(self.lists))
        given = MapContext(
            operator_id=self.operator.operator_id,
            subtask=subtask,
            parallelism=len(self.lists),
            epoch=self.epoch,
            is_backlog=self.is_backlog,
            processing_time=self.clock_ms * 1000,
            current_watermark=self.watermark_us,
        )
        kept: tuple[str, ...] = ()
        seen = [Progress()]
        for output in self.operator.run(self._tables(batches, seen), given, self.lists[subtask]):
            if isinstance(output, KeptList):
                kept = output.items
            else:
                yield from with_report_column(output, self.output_schema, numbers.attempt_id).to_batches()
        check_size(self.operator.operator_id, (kept,), None)  # before it is sent to the driver
        reach_in_task("aggregate", TaskPlace(self.epoch, self.operator.operator_id, subtask, numbers.attempt))
        report = SubtaskReport(subtask, seen[0], items=kept, attempt=numbers.attempt_id)
        yield self._report_batch(report.encode())

    def _tables(self, batches: Iterator[pa.RecordBatch], seen: list[Progress]) -> Iterator[pa.Table]:
        """Yield the rows. Set the only item of `seen` to the progress of the sources, merged over all map tasks."""
        schema = pa.schema(list(self.operator.record_fields))
        for batch in batches:
            for number, block in zip(batch.column("number"), batch.column("block"), strict=True):
                if number.as_py() == PROGRESS:
                    seen[0] = seen[0].merged(Progress.decode(block.as_py()))
                else:
                    yield decode_block(block.as_buffer()).cast(schema)

    def _report_batch(self, report: bytes) -> pa.RecordBatch:
        empty = [pa.nulls(1, field.type) for field in self.output_schema if field.name != REPORT_COLUMN]
        return pa.record_batch([*empty, pa.array([report], pa.binary())], schema=self.output_schema)
