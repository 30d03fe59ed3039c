"""One subtask of a keyed stage in one epoch. Input: blocks; output: runs, staged outputs and a report.

Runs in Spark's Python workers. A subtask returns only names, sizes, counts and checksums. Its files count only when the
driver's manifest names them, so a failed attempt leaves only garbage files, which the driver deletes later.
"""

import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.locked_folder import temporary_folder
from mixedmode.checkpoint.types import Epoch, ExecutionStrategy, Generation
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.crash_points import CrashPoint, TaskPlace, reach_in_task
from mixedmode.errors import InvalidJobError
from mixedmode.keys import group_range
from mixedmode.log import FIELDS
from mixedmode.operators.fan_out import FanOut
from mixedmode.operators.interface import OP_COLUMN, Changes, SideRows, SubtaskContext
from mixedmode.operators.process import SKIPPED_TAG
from mixedmode.operators.running import outputs_of, sorter_for
from mixedmode.plan.stages import KeyedStage
from mixedmode.profile import Profile, add_seconds
from mixedmode.sinks.files import OutputWriter, SinkTask
from mixedmode.state import ProfiledBackend
from mixedmode.tasks.block_files import BlockReader
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.failures import decode_failure, report_failures
from mixedmode.tasks.held_rows import RowBlocks
from mixedmode.tasks.inner_reads import InnerFold
from mixedmode.tasks.inner_rows import BLOCK_FIELD, in_blocks, rows_emitted, subtask_number, with_report_column
from mixedmode.tasks.memory import MemoryShares
from mixedmode.tasks.notes import SILENT, Notes
from mixedmode.tasks.numbers import TaskNumbers, numbers_from_spark
from mixedmode.tasks.progress import Progress
from mixedmode.tasks.records import RecordsToFold
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport
from mixedmode.tasks.task_state import Attempt, StateTask, TaskState
from mixedmode.tasks.timing import Timing

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SubtaskTask:
    """Everything that a subtask needs in one epoch. `state` is None in batch mode.

    `sinks`: by output name, of this stage. `results`: {name of an output that gets the rows of the stage: its columns}.
    `is_inner`: other stages, or sql before an output, read these rows, too.
    `waits_for_end`: the operator declares that it emits no rows in this epoch. `output_schema`: the columns of the
    rows, or BLOCK_FIELD, if the stage is an inner one, and the report in the last column. `seen`: the progress of the
    sources, unless the map tasks of this stage measure it. `fold`: makes blocks of the rows, such as the map side of
    the only reader; then the columns are those of its blocks.
    """

    stage: KeyedStage
    epoch: Epoch
    generation: Generation
    strategy: ExecutionStrategy
    timing: Timing
    parallelism: int
    max_parallelism: int
    memory: MemoryShares
    state: StateTask | None
    sinks: Mapping[str, SinkTask]
    results: Mapping[str, Sequence[str]]
    is_inner: bool
    waits_for_end: bool
    output_schema: pa.Schema
    seen: Progress = Progress()  # noqa: RUF009 - frozen
    notes: Notes = SILENT
    fold: InnerFold | RowBlocks | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the subtask. Spark calls this once per partition, also for an empty one."""
        return self.run(batches, numbers_from_spark())

    def run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        """Run the subtask as the task with these numbers. Yield the rows of an inner stage, and a report."""
        return report_failures(self._run(batches, numbers), self._report_batch)

    def _run(self, batches: Iterator[pa.RecordBatch], numbers: TaskNumbers) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            folder = stack.enter_context(temporary_folder("subtask-"))
            subtask = subtask_number(numbers.partition, self.parallelism)
            place = TaskPlace(self.epoch, self.stage.operator_id, subtask, numbers.attempt)
            run = _SubtaskRun(self, place, numbers.attempt_id, folder, stack)
            for table in self._read(run.tables(batches)):
                yield from with_report_column(table, self.output_schema, numbers.attempt_id).to_batches()
            report = run.report()
            self._log(report, numbers.attempt)
            yield self._report_batch(report.encode())

    def _read(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Return what the readers of the stage get of its rows."""
        return rows if self.fold is None else (pa.Table.from_batches([block]) for block in self.fold.blocks(rows))

    def _log(self, report: SubtaskReport, attempt: int) -> None:
        counts = {"records_skipped": report.skipped, "spilled_runs": report.spilled_runs}
        values = {
            "step": self.stage.operator_id,
            "epoch": self.epoch,
            "subtask": report.subtask,
            "attempt": attempt,
            "rows_out": report.rows_out,
            "pairs": report.pairs,
            **{name: count for name, count in counts.items() if count},
        }
        _logger.debug("subtask done", extra={FIELDS: values})

    def _report_batch(self, report: bytes) -> pa.RecordBatch:
        empty = [pa.nulls(1, field.type) for field in self.output_schema if field.name != REPORT_COLUMN]
        return pa.record_batch([*empty, pa.array([report], pa.binary())], schema=self.output_schema)


class _SubtaskRun:
    """The steps of one subtask, in order: receive, fold, sort, process, store."""

    def __init__(self, task: SubtaskTask, place: TaskPlace, attempt_id: int, folder: Path, stack: ExitStack) -> None:
        self._task = task
        self._place = place
        self._attempt_id = attempt_id
        self._folder = folder
        self._subtask = subtask = place.subtask
        self._unique = uuid.uuid4().hex[:16]
        self._progress, self._profile = Progress(), Profile()  # of its own map tasks
        self._map_seconds: dict[str, float] = {}
        self._rows_out = self._skipped = 0
        self._fan_out = FanOut()
        self._note = task.notes.of_task("subtask", task.stage.operator_id)
        self._groups = group_range(subtask, parallelism=task.parallelism, max_parallelism=task.max_parallelism)
        operator = task.stage.operator
        attempt = Attempt(task.stage.operator_id, task.epoch, task.generation, subtask, self._groups, self._unique)
        uploads = stack.enter_context(Uploads())
        self._state = TaskState(task.state, operator.states, attempt, task.memory, folder, uploads)
        stack.callback(self._state.close)
        unique = paths.attempt(task.generation, self._unique)
        self._outputs = {
            name: OutputWriter(sink, task.epoch, subtask, folder, uploads, unique, name)
            for name, sink in task.sinks.items()
        }
        self._sorter = stack.enter_context(
            sorter_for(operator, budget_bytes=task.memory.sort_bytes, spill_dir=folder / "sort")
        )
        self._files = BlockReader(stack)
        self._records = RecordsToFold(task.stage, task.timing, task.max_parallelism, task.memory.records_bytes)

    def tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Do all but the report. Yield the rows of an inner stage; write the rows of the last stage to its output."""
        self._receive(batches)
        self._reach("sort")
        operator = self._task.stage.operator
        with self._profile.stage("open state"):
            backend = self._state.open(self._task.strategy)
        progress = self._task.seen.merged(self._progress)
        time = self._task.timing.epoch_time(progress, delay_us=self._task.stage.delay_us)
        context = SubtaskContext(
            ProfiledBackend(backend, self._profile),
            time,
            self._groups,
            self._task.epoch,
            fan_out=self._fan_out,
            memory_bytes=self._task.memory.key_bytes,
            spill_dir=self._folder,
        )
        for output in outputs_of(operator, self._sorter, context, self._profile, self._note.processed):
            if isinstance(output, SideRows) and output.tag == SKIPPED_TAG:
                self._skipped += output.rows.num_rows
            elif isinstance(output, SideRows):
                self._outputs[self._task.stage.output_of(output.tag)].write(output.rows)
            else:
                yield from self._emitted(output)
            self._reach("aggregate")

    def _emitted(self, output: Changes) -> Iterator[pa.Table]:
        """Write the rows of one change to the results of the stage. Yield them if the stage is an inner one."""
        task, count = self._task, 0
        if task.waits_for_end:
            self._check_waits(output)
            return
        if task.results:
            with self._profile.stage("write output"):
                rows = output.upserts()
                for name, columns in task.results.items():
                    self._outputs[name].write(rows.select([*columns, OP_COLUMN]))
            count = rows.num_rows
        if task.is_inner:
            rows = rows_emitted(output, task.stage)
            count = count if task.results else rows.num_rows
            if BLOCK_FIELD.name in task.output_schema.names:
                with self._profile.stage("make blocks"):
                    rows = in_blocks(rows)
            yield rows
        self._rows_out += count

    def _reach(self, name: CrashPoint) -> None:
        reach_in_task(name, self._place)

    def _check_waits(self, output: Changes) -> None:
        rows = rows_emitted(output, self._task.stage).num_rows
        if rows:
            msg = (
                "a step says that it emits nothing before the end of its input, and emitted rows before it, so the "
                "steps downstream would never see them. Emit them in a timer that fires at the end, or remove "
                f"output_only_after_end_of_stream. step={self._task.stage.operator_id}, rows={rows}"
            )
            raise InvalidJobError(msg)

    def report(self) -> SubtaskReport:
        """Store runs and outputs, and return their report."""
        self._note.stores()
        with self._profile.stage("store output"):
            for writer in self._outputs.values():
                writer.end()
        with self._profile.stage("store state"):
            self._state.end()
            runs = self._state.store()
        with self._profile.stage("store output"):
            outputs = tuple(file for writer in self._outputs.values() for file in writer.finish())
        self._reach("runs-stored")
        return SubtaskReport(
            subtask=self._subtask,
            progress=self._progress,
            pairs=sum(run.entries for run in runs),
            rows_out=self._rows_out,
            skipped=self._skipped,
            spilled_runs=self._sorter.stats.spilled_runs,
            migration_seconds=self._state.migration_seconds,
            runs=runs,
            merged=self._state.merged,
            outputs=outputs,
            attempt=self._attempt_id,
            fan_out=self._fan_out,
            profile=add_seconds(self._map_seconds, self._profile.seconds),
        )

    def _receive(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in self._profile.each("wait for blocks", batches):
            for row in range(batch.num_rows):  # each row has a block or its place, so a loop over rows is cheap
                subtask, name, cell = (column[row] for column in batch.columns)
                kind, block = BlockKind(name.as_py()), cell.as_buffer()
                if kind is BlockKind.PLACE:
                    with self._profile.stage("collect blocks"):
                        kind, block = self._files.read(block.to_pybytes())
                match kind:
                    case BlockKind.FAILURE:
                        raise decode_failure(block.to_pybytes())
                    case BlockKind.PROFILE:
                        self._map_seconds = add_seconds(self._map_seconds, json.loads(block.to_pybytes()))
                    case BlockKind.PROGRESS:
                        self._progress = self._progress.merged(Progress.decode(block.to_pybytes()))
                    case BlockKind.LATE | BlockKind.LATE_LEFT | BlockKind.LATE_RIGHT as tag:
                        self._outputs[self._task.stage.output_of(tag)].write(decode_block(block))
                    case BlockKind.ROWS | BlockKind.RECORDS as kept:
                        assert subtask.as_py() == self._subtask, (subtask, self._subtask)
                        with self._profile.stage("collect blocks"):
                            rows = decode_block(block)
                            (self._sorter if kept == BlockKind.ROWS else self._records).add(rows)
                            self._note.received(rows.num_rows, bytes_spilled=self._sorter.stats.spilled_bytes)
                        if self._records.is_full:
                            self._fold()
        self._fold()

    def _fold(self) -> None:
        with self._profile.stage("fold"):
            rows = self._records.folded()
        if rows is not None:
            with self._profile.stage("collect blocks"):
                self._sorter.add(rows)
