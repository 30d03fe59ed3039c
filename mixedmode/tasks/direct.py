"""Tasks over files and blocks that they read themselves: the map side of a keyed stage, and others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

import pyarrow as pa

from mixedmode.connectors.files.file_slices import FileSlice, assign_slices, whole_input
from mixedmode.connectors.files.parquet_files import read_for
from mixedmode.connectors.files.text_slices import read_text_slices
from mixedmode.expressions import Query, QueryCalls, evaluate
from mixedmode.plan.job_plan import DirectRead
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.held_rows import HeldPieces
from mixedmode.tasks.measuring import MeasureTask
from mixedmode.tasks.notes import Notes
from mixedmode.tasks.partner_keys import KeysOfSide
from mixedmode.tasks.rows import RowsTask

__all__ = [
    "AnyPieces",
    "DirectMapSide",
    "DirectRows",
    "FilesRead",
    "Pieces",
    "calls_functions",
    "deal_out",
    "effort_bytes",
    "one_task",
]

#: what a reader of sources reads in an epoch: of each source, its files (path, bytes)
FilesRead = Sequence[tuple[DirectRead, Sequence[tuple[str, int]]]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The slices of files of one source that a task reads, and how it reads them."""

    read: DirectRead
    slices: tuple[FileSlice, ...]

    @property
    def input_bytes(self) -> float:
        """Return about how many bytes of the job's input the slices have."""
        return sum(one.size for one in self.slices)

    def rows(self, tell: Callable[[float], object]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are made of the slices.  tell: see `read_for`."""
        read, lines = self.read, self.read.lines
        if lines is None:
            return _evaluated(read_for(self.slices, read.columns, read.queries, tell))
        fields = [pa.field(column.name, column.data_type) for column in read.columns]
        return evaluate(read.queries, read_text_slices(self.slices, fields, lines, tell))


def _evaluated(found: Iterator[tuple[Sequence[Query], pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the queries of each batch. What `evaluate` has to know of them is found once for many batches.

    Queries are compared by identity, which says enough: those of a task are the same objects for all its files.
    """
    groups = groupby(found, lambda one: [id(query) for query in one[0]])
    for group in map(itemgetter(1), groups):
        queries, first = next(group)
        yield from evaluate(queries, chain((first,), (batch for _, batch in group)))


def deal_out(files: FilesRead, tasks: int) -> tuple[tuple[Pieces, ...], ...]:
    """Return the pieces of at most so many tasks, which read about equally many bytes of each source. Pure.

    Where a source has fewer slices than there are tasks, the next source begins with the tasks that have none of them.
    """
    dealt: list[list[Pieces]] = [[] for _ in range(tasks)]
    first = 0
    for read, of_source in files:
        parts = assign_slices(of_source, tasks, effort=_effort(read))
        for number, slices in enumerate(parts):
            dealt[(first + number) % tasks].append(Pieces(read, slices))
        first += len(parts)
    return tuple(tuple(pieces) for pieces in dealt if pieces)


def effort_bytes(files: FilesRead) -> int:
    """Return the number of bytes of Parquet that take about as long to read as these files."""
    return sum(length * _effort(read) for read, of_source in files for _, length in of_source)


def _effort(read: DirectRead) -> int:
    """Return how many times as long a byte takes as one of Parquet."""
    return 1 if read.lines is None else 8


def one_task(files: FilesRead) -> tuple[tuple[Pieces, ...]]:
    """Return all of the files as the pieces of one task."""
    return (tuple(Pieces(read, slices) for read, of_source in files for slices in whole_input(of_source)),)


#: what a task reads of a source or of a stage
AnyPieces = Pieces | HeldPieces


@dataclass(frozen=True, slots=True)
class DirectMapSide:
    """The map side over what its tasks read. Spark calls it with the number of the task; `tasks` has their pieces."""

    map_side: MapSide
    tasks: tuple[tuple[AnyPieces, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the rows of the task's pieces."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self.blocks(task)

    def blocks(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the rows of one task's pieces."""
        pieces = self.tasks[task]
        note = self.map_side.note(bytes_total=sum(one.input_bytes for one in pieces))
        return self.map_side.blocks((rows for one in pieces for rows in one.rows(note.read)), note)


def calls_functions(files: FilesRead) -> bool:
    """Return whether functions of the job are called with rows of these files.

    Each call may take long, so one task calls them for each row.
    """
    return any(QueryCalls.of(query).has_any for read, _ in files for query in read.queries)


@dataclass(frozen=True, slots=True)
class DirectRows:
    """Another task over what it reads by itself. Spark calls it with the number of the task, as DirectMapSide.

    `task`: writes an output that no keyed step writes, or measures the progress of the sources, and yields one report;
    or finds the keys of a side of a join. `step`: its name among the steps of the epoch, for the note of a task.
    """

    task: RowsTask | MeasureTask | KeysOfSide
    tasks: tuple[tuple[AnyPieces, ...], ...]
    notes: Notes
    step: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task makes of the rows of its pieces, also if it has none."""
        return self.task(rows for batch in batches for task in batch.column(0).to_pylist() for rows in self._rows(task))

    def _rows(self, task: int) -> Iterator[pa.RecordBatch]:
        pieces = self.tasks[task]
        note = self.notes.of_task("map", self.step, bytes_total=sum(one.input_bytes for one in pieces))
        for rows in note.counted(rows for one in pieces for rows in one.rows(note.read)):
            yield rows
            note.folded(rows.num_rows, rows.num_rows)
            note.sent(rows.num_rows)
