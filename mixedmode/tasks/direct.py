"""Tasks over Parquet files that they read themselves: the map side of a keyed stage, or the writer of an output."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from mixedmode.connectors.files.parquet_files import FileSlice, read_slices
from mixedmode.expressions import Query, evaluate
from mixedmode.plan.job_plan import ReadColumn
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.notes import Notes
from mixedmode.tasks.rows import RowsTask


@dataclass(frozen=True, slots=True)
class DirectMapSide:
    """The map side over files. Spark calls it with the number of the task; `tasks` has the slices of each task.

    `columns`: what is read. `queries`: the rows that are made of it, with the columns of the map side.
    """

    map_side: MapSide
    columns: tuple[ReadColumn, ...]
    queries: tuple[Query, ...]
    tasks: tuple[tuple[FileSlice, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the rows of the task's slices."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self.blocks(task)

    def blocks(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the rows of one task's slices."""
        slices = self.tasks[task]
        note = self.map_side.note(bytes_total=sum(one.size for one in slices))
        return self.map_side.blocks(evaluate(self.queries, read_slices(slices, self.columns, note.read)), note)


@dataclass(frozen=True, slots=True)
class DirectRows:
    """The writer of an output that no keyed step writes. Spark calls it with the number of the task, as DirectMapSide.

    `step`: the name of the output among the steps of the epoch, for the note of a task.
    """

    write: RowsTask
    columns: tuple[ReadColumn, ...]
    queries: tuple[Query, ...]
    tasks: tuple[tuple[FileSlice, ...], ...]
    notes: Notes
    step: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of the task's slices, and yield one report, also for a task without slices."""
        return self.write(
            rows for batch in batches for task in batch.column(0).to_pylist() for rows in self._rows(task)
        )

    def _rows(self, task: int) -> Iterator[pa.RecordBatch]:
        slices = self.tasks[task]
        note = self.notes.of_task("map", self.step, bytes_total=sum(one.size for one in slices))
        for rows in note.counted(evaluate(self.queries, read_slices(slices, self.columns, note.read))):
            yield rows
            note.folded(share=1.0)
