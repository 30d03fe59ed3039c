"""The exchange before a keyed stage: Spark moves blocks of columns, not rows.

The map side takes as large a slice of the input as memory allows. The operator folds the slice; or the subtasks fold
it (records.py). The rows are divided by subtask and encoded as Arrow IPC blocks. A block is a row of a (subtask, kind,
block) frame, and Spark moves it to the partition of that number. Every map task sends its progress of the sources to
every subtask, because a subtask needs the progress of all tasks to compute the watermark of the epoch.

Everything here runs in Spark's Python workers and touches no Spark API.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mixedmode.keys import distinct_part
from mixedmode.operators.interface import KEY_GROUP_COLUMN, Batch, Folded
from mixedmode.operators.join import JoinBase
from mixedmode.operators.running import divided_by_subtask
from mixedmode.plan.stages import KeyedStage
from mixedmode.profile import Profile
from mixedmode.sort import joined, slices
from mixedmode.tasks.batches import batch_of, keys_of
from mixedmode.tasks.block_files import in_files
from mixedmode.tasks.block_rows import BlockKind, block_batch, failure_batch
from mixedmode.tasks.blocks import blocks_of
from mixedmode.tasks.failures import report_failures
from mixedmode.tasks.memory import SLICE_PIECES_MAX, SLICE_ROW_BYTES_MIN, decide_pieces
from mixedmode.tasks.notes import SILENT, Note, Notes
from mixedmode.tasks.partners import Partners
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.records import DISTINCT_PART_MIN, divided, folds_in_subtask, may_hardly_repeat
from mixedmode.tasks.timing import Timing
from mixedmode.tasks.watching import Watch

ROW_PREFIX = "_row"  # the columns of a late record travel to the map side as _row0, _row1, ...

Rows = npt.NDArray[np.intp]
Sides = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class MapSide:
    """Everything that a map task needs. Spark calls it with the task's record batches.

    `timing`: that of the stage. `watch`: measures the progress of the sources. `counts_records`: the input of this
    stage counts as the records of the epoch. `partners`: of a join, to leave out rows that find none. `blocks_folder`:
    for files with large blocks; None: Spark moves all blocks.
    """

    stage: KeyedStage
    parallelism: int
    max_parallelism: int
    slice_bytes: int
    timing: Timing
    watch: Watch
    counts_records: bool = True
    notes: Notes = SILENT
    partners: Partners | None = None
    blocks_folder: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one map task; none for empty input. A block's subtask owns the key groups of its rows."""
        return self.blocks(batches, self.note())

    def blocks(self, batches: Iterator[pa.RecordBatch], note: Note) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one map task that keeps this note."""
        profile = Profile()
        tables = profile.each("read input", self.slices(batches, note))
        return report_failures(self.blocks_of(tables, profile, note), failure_batch)

    def note(self, *, bytes_total: float = 0.0) -> Note:
        """Return the note of the map task that calls this."""
        return self.notes.of_task("map", self.stage.operator_id, bytes_total=bytes_total)

    def blocks_of(self, tables: Iterator[pa.Table], profile: Profile, note: Note) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of one map task whose input is in `slices`, or the places of blocks."""
        blocks = self._blocks_of(tables, profile, note)
        return blocks if self.blocks_folder is None else in_files(blocks, self.blocks_folder, profile)

    def _blocks_of(self, tables: Iterator[pa.Table], profile: Profile, note: Note) -> Iterator[pa.RecordBatch]:
        progress, has_input = Progress(), False
        for table in tables:
            with profile.stage("fold"):
                rows, seen = self.watch.split(table)
                note.unfolded(table.num_rows - rows.num_rows)
            progress = progress.merged(seen)
            if rows.num_rows:  # without rows of the step, the columns of the step may be missing, too
                progress = progress.merged((yield from self.fold(rows, profile, note)))
            del table, rows  # a table is as large as memory allows, so free it before the next one
            has_input = True
        yield from self.ending(progress, profile.seconds if has_input else {})

    def slices(self, batches: Iterator[pa.RecordBatch], note: Note) -> Iterator[pa.Table]:
        """Yield the input of a map task in slices, each as large as memory allows."""
        return gathered(note.counted(batches), self.slice_bytes, row_bytes_min=SLICE_ROW_BYTES_MIN)

    def ending(self, progress: Progress, seconds: Mapping[str, float]) -> Iterator[pa.RecordBatch]:
        """Yield the last blocks of a map task.  seconds: its profile; empty if it had no input."""
        if progress != Progress():
            for subtask in range(self.parallelism):
                yield block_batch(subtask, BlockKind.PROGRESS, progress.encode())
        if seconds:
            yield block_batch(0, BlockKind.PROFILE, json.dumps(seconds).encode())

    def fold(self, rows: pa.Table, profile: Profile, note: Note) -> Generator[pa.RecordBatch, None, Progress]:
        """Yield the blocks of one slice. Return the numbers of its records, rows and late records."""
        with profile.stage("fold"):
            is_whole = not self.stage.key_fields or rows.nbytes <= self.slice_bytes // SLICE_PIECES_MAX
            part = self._part_left(rows, is_whole=is_whole)
        if folds_in_subtask(self.stage) and part > DISTINCT_PART_MIN:
            return (yield from self._send(rows, profile, note))
        progress = Progress()
        fold_bytes = rows.nbytes if is_whole else -(-rows.nbytes // decide_pieces(part))
        for piece in slices(rows, fold_bytes):
            progress = progress.merged((yield from self._fold_piece(piece, profile, note)))
            note.sent(piece.num_rows)
        return progress

    def _part_left(self, rows: pa.Table, *, is_whole: bool) -> float:
        """Return about how many rows folding a slice leaves, per row; 0 if the task folds it as a whole in any case."""
        if is_whole and not (folds_in_subtask(self.stage) and may_hardly_repeat(rows, self.stage)):
            return 0.0
        if self.stage.operator.combine is None:
            return 1.0  # it makes at least one row of each record
        return distinct_part(keys_of(rows, self.stage))

    def _send(self, rows: pa.Table, profile: Profile, note: Note) -> Generator[pa.RecordBatch, None, Progress]:
        """Do the same as `fold` for rows that subtasks fold."""
        numbers = {"parallelism": self.parallelism, "max_parallelism": self.max_parallelism}
        note.folded(rows.num_rows, rows.num_rows)  # nothing is left to do but sending
        for subtask, own in profile.each("divide", divided(rows, self.stage, **numbers)):
            for block in profile.each("make blocks", blocks_of(own)):
                yield block_batch(subtask, BlockKind.RECORDS, block)
        note.sent(rows.num_rows)
        return self._progress_of(rows)

    def _fold_piece(self, rows: pa.Table, profile: Profile, note: Note) -> Generator[pa.RecordBatch, None, Progress]:
        """Do the same as `fold` for one piece."""
        with profile.stage("fold"):
            batch = batch_of(rows, self.stage, self.timing)
            folded = self._folded(batch)
            table = self._with_partners(folded.table)
        note.folded(rows.num_rows, table.num_rows)
        yield from profile.each("make blocks", self._ship(table))
        if len(folded.late_rows):
            yield from self._late(rows, folded.late_rows, batch.sides)
        left_out = folded.table.num_rows - table.num_rows
        return replace(
            self._progress_of(rows),
            late=len(folded.late_rows),
            late_of_sides=self._late_of_sides(folded.late_rows, batch.sides),
            left_out={self.stage.operator_id: left_out} if left_out else {},
        )

    def _progress_of(self, rows: pa.Table) -> Progress:
        """Return the numbers of records and rows of a slice, none of which is late or left out."""
        return Progress(rows.num_rows if self.counts_records else 0, rows_read={self.stage.operator_id: rows.num_rows})

    def folded(self, rows: pa.Table) -> pa.Table:
        """Return the folded rows of a slice of the input, without late ones."""
        return self._folded(batch_of(rows, self.stage, self.timing)).table

    def _folded(self, batch: Batch) -> Folded:
        late_us = self.timing.late_us(self.stage.delay_us)
        return self.stage.operator.fold(batch, late_us=late_us, max_parallelism=self.max_parallelism)

    def _with_partners(self, folded: pa.Table) -> pa.Table:
        operator = self.stage.operator
        if self.partners is None or not isinstance(operator, JoinBase):
            return folded
        return self.partners.with_partners(operator, folded)

    def _late(self, rows: pa.Table, late: Rows, sides: Sides | None) -> Iterator[pa.RecordBatch]:
        """Yield the late rows, of each side by itself, if they have an output."""
        for tag, columns in self.stage.late_columns.items():
            of_tag = [number for number, side in enumerate(self.stage.sides) if side.late_tag == tag]
            own = late if sides is None else late[np.isin(sides[late], of_tag)]
            if not len(own):
                continue
            fields = [field for _, field in columns]
            found = rows.select([f"{ROW_PREFIX}{number}" for number, _ in columns]).take(pa.array(own))
            for piece in blocks_of(found.rename_columns([field.name for field in fields]).cast(pa.schema(fields))):
                yield block_batch(0, BlockKind(tag), piece)

    def _late_of_sides(self, late: Rows, sides: Sides | None) -> dict[tuple[str, int], int]:
        if sides is None:
            return {}
        counts = np.bincount(sides[late]).tolist()
        return {(self.stage.operator_id, side): count for side, count in enumerate(counts) if count}

    def _ship(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield one batch per block."""
        numbers = {"parallelism": self.parallelism, "max_parallelism": self.max_parallelism}
        for subtask, rows in divided_by_subtask(table, table.column(KEY_GROUP_COLUMN).to_numpy(), **numbers):
            for piece in blocks_of(rows):
                yield block_batch(subtask, BlockKind.ROWS, piece)


def gathered(batches: Iterator[pa.RecordBatch], slice_bytes: int, *, row_bytes_min: int = 0) -> Iterator[pa.Table]:
    """Yield the rows of a map task in non-empty tables of about `slice_bytes`. See `joined`."""
    parts = (part for batch in batches for part in slices(pa.Table.from_batches([batch]), slice_bytes))
    return joined(parts, slice_bytes, row_bytes_min=row_bytes_min)
