"""Runs the stages of an epoch on Spark: those at the same time that do not wait for each other.

    source rows -> sql -> columns of a stage -> [map side] => [subtask] -> changelog -> sql -> ... => [subtask] -> sink

Map stages come first, and have their own module (map_stages.py). Up to the columns of the stages that read sources, the
frame is part of the streaming query (input_frames.py). If tasks can compute what all such stages need of their files,
the query returns files instead of rows, and the map sides read them (tasks/direct.py). All later frames are built in
`foreachBatch`, once per epoch.
"""

import uuid
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StructType

from mixedmode.checkpoint.types import ListState
from mixedmode.executor.dimensions import VersionsRead
from mixedmode.executor.epoch_inputs import (
    OfBoth,
    OfEntries,
    OfEntry,
    OfFiles,
    OfMaps,
    OfSources,
    ReaderInput,
    files_of,
)
from mixedmode.executor.held_blocks import Ended, HeldBlocks, StageRows, blocks_folder, parted
from mixedmode.executor.inner_folds import folding_reader
from mixedmode.executor.input_frames import map_input, rows_read
from mixedmode.executor.map_stages import run_maps
from mixedmode.executor.partners import files_rows, partners, side_to_thin
from mixedmode.executor.protocol import EpochResult, EpochTask, rows_action
from mixedmode.executor.rows_between import may_compute_twice, rows_of
from mixedmode.executor.stage_tasks import (
    REPORT_FIELD,
    epoch_result,
    map_side,
    measure_task,
    rows_task,
    subtasks,
    with_progress,
)
from mixedmode.executor.task_inputs import TaskInput
from mixedmode.plan.dimensions import joins_sources
from mixedmode.plan.job_plan import PROGRESS, entry_of
from mixedmode.plan.reads import Reads
from mixedmode.plan.stages import KeyedStage
from mixedmode.spark.frames import map_in_arrow, spark_schema
from mixedmode.spark.held import Hold, held
from mixedmode.spark.jobs import described
from mixedmode.spark.numbered_tasks import FedTasks, NumberedTasks, Tasks, TwoStages, shares_workers, with_rows
from mixedmode.spark.session import cores
from mixedmode.spark.side_by_side import SideBySide
from mixedmode.tasks.block_rows import BLOCK_DDL
from mixedmode.tasks.direct import DirectMapSide, DirectRows
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.inner_reads import InnerRead
from mixedmode.tasks.measuring import MeasureTask
from mixedmode.tasks.partner_keys import KeysOfSide, hashes_in
from mixedmode.tasks.reports import REPORT_COLUMN, SubtaskReport, decode_report
from mixedmode.tasks.rows import RowsTask
from mixedmode.tasks.single_stage import SingleStage, is_single_stage
from mixedmode.tasks.subtask import SubtaskTask

_MEASURE = "event times"  # the action that measures the progress of the sources


@dataclass(frozen=True, slots=True)
class EpochRun:
    """One epoch in one session."""

    session: SparkSession
    task: EpochTask
    read: VersionsRead

    @property
    def tables(self) -> Mapping[str, DataFrame]:
        """Return the rows of each dimension."""
        return self.read.frames

    def result(self, frame: DataFrame | None) -> EpochResult:
        """Run all stages.  frame: None for an epoch without input."""
        with blocks_folder(self.session) as folder:
            task = replace(self.task, plan=self.read.in_plan(self.task.plan), blocks_folder=folder)
            return replace(self, task=task).of_input(frame)

    def of_input(self, frame: DataFrame | None) -> EpochResult:
        """Do the same, with the plan of the task, and with its folder for blocks."""
        plan = self.task.plan
        with held() as hold:
            if plan.maps and frame is not None:
                if joins_sources(plan):
                    frame = map_input(self.session, frame, plan, self.tables)
                mapped = run_maps(self.session, frame, self.task, self.tables, hold)
                run = replace(self, task=replace(self.task, seen=mapped.seen))
                return run.run(OfMaps(self.session, plan, self.tables, mapped.rows), hold, mapped.list_states)
            if frame is None:
                return self.run(OfEntry(None), hold)
            if plan.is_all_listed:
                return self.run(OfFiles(plan, files_of(self.task), self.read), hold)
            # Each action computes all rows of a micro-batch again. In batch mode, Spark prunes those of other entries.
            is_batch = self.task.settings.checkpoint_url is None
            if not plan.has_one_entry and not is_batch:
                frame = hold(frame)
            rows = self._rows_of_spark(frame)
            if not plan.listed:
                return self.run(rows, hold)
            return self.run(OfBoth(plan, rows, OfFiles(plan, files_of(self.task), self.read)), hold)

    def _rows_of_spark(self, frame: DataFrame) -> ReaderInput:
        plan = self.task.plan
        if joins_sources(plan):
            return OfSources(self.session, plan, self.tables, frame)
        return OfEntry(frame) if plan.has_one_entry else OfEntries(plan, frame)

    def run(self, given: ReaderInput, hold: Hold, list_states: tuple[ListState, ...] | None = None) -> EpochResult:
        """Run the keyed stages, and write the results that no stage writes."""
        return _Readers(self, given, hold).result(list_states)

    def rows_for(self, entry: str, given: ReaderInput, rows: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return the rows of Spark that a stage or a result reads; None if there are none.

        They are of sources, and of those stages in `rows` whose rows do not stay in Arrow.
        """
        reads, _ = self.task.plan.reader(entry)
        parts = [given.rows(entry) if reads.sources else None, self.rows_of_stages(entry, rows)]
        there = [part for part in parts if part is not None]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), there) if there else None

    def rows_of_stages(self, entry: str, rows: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return those of `rows_for` that come from stages."""
        reads, stage = self.task.plan.reader(entry)
        in_arrow = self.task.plan.inner.get(entry, {})
        there = {name: rows[name] for name in reads.stages if name in rows and name not in in_arrow}
        return rows_read(self.session, reads, there, self.task.plan, stage, tables=self.tables) if there else None

    def read_in_arrow(
        self, entry: str, task: MapSide | RowsTask | KeysOfSide, rows: Mapping[str, DataFrame], output: str | StructType
    ) -> list[DataFrame]:
        """Return what the tasks of a stage or a result return for rows that stay in Arrow, of each stage in `rows`."""
        plan = self.task.plan
        here = {name: queries for name, queries in plan.inner.get(entry, {}).items() if name in rows}
        here = {name: queries for name, queries in here.items() if folding_reader(plan, name) is None}
        return [map_in_arrow(rows[name], InnerRead(task, queries), output) for name, queries in here.items()]

    def ended(self, action: str, output: DataFrame | Tasks, *, holds_blocks: bool = False) -> Ended:
        """Run tasks, or compute the rows of a frame, and return the reports; and the blocks, if they are wanted."""
        with described(self.session, self.task.description(action)):
            if holds_blocks:
                made = output.toArrow().to_batches() if isinstance(output, DataFrame) else output.batches(self.session)
                return parted(made)
            if isinstance(output, DataFrame):
                return Ended(_reports(output))
            return Ended([decode_report(report) for report in output.reports(self.session, REPORT_COLUMN)])

    @property
    def holds_blocks(self) -> bool:
        """Return whether the driver holds the blocks that subtasks make for other stages."""
        return self.task.blocks_folder is not None and shares_workers(self.session)

    def rows_written(
        self, task: EpochTask, name: str, given: ReaderInput, rows: StageRows
    ) -> DataFrame | NumberedTasks | None:
        """Return the tasks that write a result which no stage writes, or their reports; None if it gets no rows."""
        write, report, parts = rows_task(task, name), spark_schema([REPORT_FIELD]), []
        frame = self.rows_for(entry_of(name), given, rows.frames)
        if frame is not None:
            parts.append(map_in_arrow(frame, write, report))
        parts += self.read_in_arrow(entry_of(name), write, rows.frames, report)
        own = TaskInput.of(task.plan, entry_of(name), given.files(entry_of(name)), rows.held)
        by_tasks = self.direct(own, write, rows_action(name)) if own.files or own.rows else None
        return with_rows(by_tasks, reduce(DataFrame.union, parts) if parts else None, self.session)

    def direct(self, given: TaskInput, task: RowsTask | MeasureTask | KeysOfSide, action: str) -> NumberedTasks:
        """Return tasks that read their input by themselves."""
        tasks = given.dealt(cores(self.session))
        return NumberedTasks(DirectRows(task, tasks, self.task.notes, action), len(tasks))

    def blocks(
        self, task: EpochTask, stage: KeyedStage, given: ReaderInput, rows: StageRows, sizes: Mapping[str, int]
    ) -> DataFrame | NumberedTasks | DirectMapSide | HeldBlocks:
        """Return the blocks of a stage: a frame, or tasks if they read all its input, or the held ones if there are no
        others. For small input, return a map side that its subtasks run. sizes: see side_to_thin.
        """
        side = side_to_thin(task, stage, sizes)
        found = None if side is None else partners(task, stage, side, self.hashes_of(task, stage, 1 - side, rows))
        fold = map_side(task, stage, found)
        frames, held = rows.frames, rows.held
        own = TaskInput.of(task.plan, stage.operator_id, given.files(stage.operator_id), held)
        folded = [held[name] for name in stage.reads.stages if name in held and folding_reader(task.plan, name)]
        frame = self.rows_for(stage.operator_id, given, frames)
        parallelism = task.settings.parallelism_of(stage.operator_id)
        parts = [] if frame is None else [frame.mapInArrow(fold, BLOCK_DDL)]
        parts += self.read_in_arrow(stage.operator_id, fold, frames, BLOCK_DDL)
        parts += [frames[name] for name in stage.reads.stages if name in frames and folding_reader(task.plan, name)]
        is_small = is_single_stage(own.effort_bytes, parallelism=parallelism) and not own.calls_functions
        if folded and not parts and own.is_empty:
            return HeldBlocks([batch for blocks in folded for batch in blocks.batches])
        parts += [blocks.frame(self.session) for blocks in folded]
        if not parts and (own.is_empty or is_small):
            return DirectMapSide(replace(fold, blocks_folder=None), own.in_one_task())
        tasks = own.dealt(cores(self.session))
        by_tasks = NumberedTasks(DirectMapSide(fold, tasks), len(tasks))
        if not parts:
            return by_tasks
        if not own.is_empty:
            parts.append(by_tasks.frame(self.session, BLOCK_DDL))
        return reduce(DataFrame.union, parts)

    def hashes_of(self, task: EpochTask, stage: KeyedStage, side: int, rows: StageRows) -> npt.NDArray[np.uint64]:
        """Return hashes of the keys of a side of a join, all of whose rows are those of stages."""
        reader, find = stage.operator_id, KeysOfSide(map_side(task, stage), side)
        of_side = rows.of(stage.sides[side].roots)
        frame = self.rows_of_stages(reader, of_side.frames)
        blocks = self.read_in_arrow(reader, find, of_side.frames, BLOCK_DDL)
        blocks += [] if frame is None else [frame.mapInArrow(find, BLOCK_DDL)]
        own = TaskInput.of(task.plan, reader, (), of_side.held)
        action = f"{reader}, keys of the smaller side"
        with described(self.session, self.task.description(action)):
            made = self.direct(own, find, action).batches(self.session) if own.rows else []
            found = [(row["kind"], row["block"]) for batch in made for row in batch.to_pylist()]
            found += [(row.kind, row.block) for row in reduce(DataFrame.union, blocks).collect()] if blocks else []
        return hashes_in(found)

    def run_subtasks(
        self, blocks: DataFrame | NumberedTasks | DirectMapSide | HeldBlocks, subtask: SubtaskTask
    ) -> DataFrame | Tasks:
        """Return the output of a keyed stage: a frame, or tasks that return reports, and blocks for the driver."""
        schema = spark_schema(list(subtask.output_schema))
        needs_frame = subtask.is_inner and not (self.holds_blocks and subtask.fold)
        if isinstance(blocks, DirectMapSide):
            tasks = NumberedTasks(SingleStage(blocks, subtask), subtask.parallelism)
            return tasks.frame(self.session, schema) if needs_frame else tasks
        if isinstance(blocks, HeldBlocks):
            if not needs_frame:
                return FedTasks(subtask, blocks.of_subtasks(subtask.parallelism))
            blocks = blocks.frame(self.session)
        if isinstance(blocks, NumberedTasks):
            if self.holds_blocks and not needs_frame:
                return TwoStages(blocks, subtask, subtask.parallelism)
            blocks = blocks.frame(self.session, BLOCK_DDL)
        return blocks.repartitionById(subtask.parallelism, F.col("subtask")).mapInArrow(subtask, schema)


@dataclass
class _Readers:
    """The readers of an epoch (JobPlan.readers). A reader begins when all stages that it reads have ended.

    `task`: has the progress of the sources, once it is measured. `waiting`: readers that have not begun. `open`: stages
    that have not ended. `outputs`: frames of inner stages. `rows`: of ended stages. `reports`: of ended readers.
    """

    run: EpochRun
    given: ReaderInput
    hold: Hold

    def __post_init__(self) -> None:
        plan = self.run.task.plan
        self.task = self.run.task
        self.waiting = dict(plan.readers)
        self.open = {stage.operator_id for stage in plan.stages}
        self.outputs: dict[str, DataFrame] = {}
        self.rows = StageRows()
        self.reports: dict[str, list[SubtaskReport]] = {}

    def result(self, list_states: tuple[ListState, ...] | None) -> EpochResult:
        """Run all readers; at the same time, those that do not wait for each other."""
        plan = self.task.plan
        with SideBySide[Ended](self.run.session, f"mixedmode-readers-{uuid.uuid4().hex}") as actions:
            self._measure(actions)
            while self.waiting or actions.is_running:
                ready = self._ready()
                if len(ready) == 1 and not actions.is_running:  # as always in a chain: a thread would only cost time
                    self._end(ready[0], self._action(ready[0])())
                    continue
                for reader in ready:
                    actions.start(reader, self._action(reader))
                if actions.is_running:
                    self._end(*actions.next())
        stages = {name: self.reports[name] for stage in plan.stages if (name := stage.operator_id) in self.reports}
        written = {name: self.reports[entry] for name in plan.rows_results if (entry := entry_of(name)) in self.reports}
        return epoch_result(self.task, stages, written, list_states)

    def _measure(self, actions: SideBySide[Ended]) -> None:
        """Measure the progress of the sources, if no reader does. Without event times, readers need not wait for it."""
        if not self.task.plan.measures_first:
            return
        task, files, rows = measure_task(self.task), self.given.files(PROGRESS), self.given.rows(PROGRESS)
        of_files = self.run.direct(TaskInput(files, ()), task, _MEASURE) if files else None
        of_rows = None if rows is None else rows.mapInArrow(task, spark_schema([REPORT_FIELD]))
        measured = with_rows(of_files, of_rows, self.run.session)
        if measured is None:
            return
        action = partial(self.run.ended, _MEASURE, measured)
        if self.task.plan.strategies and not self.task.timing.is_final:
            self._end(_MEASURE, action())
        else:
            actions.start(_MEASURE, action)

    def _ready(self) -> list[str]:
        """Return the readers that can begin now, and take them from `waiting`. One without input will not begin."""
        ready = []
        for reader, reads in list(self.waiting.items()):  # a stage comes before its readers
            if self.open.intersection(reads.stages):
                continue
            del self.waiting[reader]
            if _has_input(reads, self.rows.names):
                ready.append(reader)
            else:
                self.open.discard(reader)  # it keeps its state
        return ready

    def _action(self, reader: str) -> Callable[[], Ended]:
        """Return the action that runs a reader."""
        run, task = self.run, self.task
        _, stage = task.plan.reader(reader)
        if stage is None:
            name = next(name for name in task.plan.rows_results if entry_of(name) == reader)
            written = run.rows_written(task, name, self.given, self.rows)
            return Ended if written is None else partial(run.ended, rows_action(name), written)
        in_blocks, tells_attempt = task.plan.stays_in_arrow(reader), may_compute_twice(run.session)
        subtask = subtasks(task, stage, tells_attempt=tells_attempt, in_blocks=in_blocks, are_held=run.holds_blocks)
        blocks = run.blocks(task, stage, self.given, self.rows, self._sizes(reader))
        output = run.run_subtasks(blocks, subtask)
        if run.holds_blocks and subtask.fold and not subtask.waits_for_end:
            return partial(run.ended, reader, output, holds_blocks=True)
        if isinstance(output, DataFrame) and subtask.is_inner:
            # A stage writes runs, so it must run only once: persist its rows, as they are read twice.
            output = self.hold(output)
            if not subtask.waits_for_end:
                self.outputs[reader] = output
        return partial(run.ended, reader, output)

    def _sizes(self, reader: str) -> dict[str, int]:
        """Return about how many rows the roots have that a reader reads, as far as it is known."""
        of_files = {read.source: files_rows(files) for read, files in self.given.files(reader)}
        return of_files | {name: sum(one.rows_out for one in self.reports[name]) for name in self.rows.names}

    def _end(self, reader: str, ended: Ended) -> None:
        """Note that a reader has ended, so that others may begin."""
        reports = ended.reports
        if reader in (_MEASURE, self.task.plan.measured_by):
            # every subtask of a stage reports the same progress
            self.task = with_progress(self.task, reports[:1] if reader in self.open else reports)
        if reader == _MEASURE:
            return
        self.reports[reader] = reports
        self.open.discard(reader)
        if ended.blocks is not None:
            self.rows.held[reader] = ended.blocks
        if reader in self.outputs:
            self.rows.frames[reader] = rows_of(self.outputs[reader], reports)


def _has_input(reads: Reads, emitted: AbstractSet[str]) -> bool:
    """Return whether a reader may get rows in this epoch: not if all that it reads are stages that wait for the end.

    emitted: the stages whose rows are there.
    """
    return bool(reads.sources) or any(name in emitted for name in reads.stages)


def _reports(frame: DataFrame) -> list[SubtaskReport]:
    if len(frame.columns) > 1:  # rows for the next stage, and the reports
        frame = frame.where(F.col(REPORT_COLUMN).isNotNull()).select(REPORT_COLUMN)
    return [decode_report(bytes(row[0])) for row in frame.collect()]
