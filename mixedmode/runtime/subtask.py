"""One subtask of a keyed stage in one epoch: blocks in; runs, staged outputs and a report out.

Runs in Spark's Python workers. A subtask returns names, sizes, counts and checksums only; what it wrote does not exist
until the driver's manifest names it, so an attempt that dies leaves nothing but garbage for the collector.
"""

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import file_checksum
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, PathTaken, RunFile, StagedFile
from mixedmode.crash_points import reach
from mixedmode.errors import CorruptStateError
from mixedmode.job.plan import KeyedStage
from mixedmode.keys import KeyGroupRange, group_range
from mixedmode.runtime.exchange import decode_block
from mixedmode.runtime.failures import decode_failure, report_failures
from mixedmode.sinks.files import OutputWriter, SinkTask
from mixedmode.sort import ExternalSorter
from mixedmode.state import KeyedStateBackend, SingleKeyBackend
from mixedmode.state.merging import decide_merge
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.merge import merge_runs
from mixedmode.state.rocksdb.replica import WantedRun
from operators.aggregate import AggregateOperator

REPORT_COLUMN = "_report"


@dataclass(frozen=True, slots=True)
class SubtaskReport:
    """What one subtask did. `records` and `max_time_us` are of the map side's slices that came with its blocks.

    `migration_seconds` is the time that writing and storing the state's new runs took. `runs` are new; each of
    `merged` takes the place of older ones.
    """

    subtask: int
    records: int = 0
    max_time_us: int | None = None
    pairs: int = 0
    rows_out: int = 0
    spilled_runs: int = 0
    migration_seconds: float = 0.0
    runs: tuple[RunFile, ...] = ()
    merged: tuple[RunFile, ...] = ()
    outputs: tuple[StagedFile, ...] = ()

    def encode(self) -> bytes:
        """JSON; see `decode_report`."""
        return json.dumps({"report": asdict(self)}).encode()


def decode_report(data: bytes) -> SubtaskReport:
    """The report of a subtask. Raises the error that the subtask sent instead."""
    parts = json.loads(data)
    if "report" not in parts:
        raise decode_failure(data)
    report = parts["report"]
    for kind in ("runs", "merged"):
        report[kind] = tuple(RunFile(**{**run, "merged_from": tuple(run["merged_from"])}) for run in report[kind])
    report["outputs"] = tuple(StagedFile(**output) for output in report["outputs"])
    return SubtaskReport(**report)


@dataclass(frozen=True, slots=True)
class StateTask:
    """Where a stage's state is, and the committed runs that hold it, oldest to newest."""

    checkpoint_url: str
    runs: tuple[RunFile, ...]


@dataclass(frozen=True, slots=True)
class SubtaskTask:
    """Everything that a subtask needs in one epoch. `state` is None in batch mode, `sink` None for an inner stage.

    `output_schema` is the inner stage's frame: its rows, and the report in the last column.
    """

    stage: KeyedStage
    epoch: Epoch
    generation: Generation
    path: PathTaken
    parallelism: int
    max_parallelism: int
    sort_memory_bytes: int
    state: StateTask | None
    sink: SinkTask | None
    output_schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark once per partition, also for an empty one."""
        return report_failures(self._run(batches), self._report_batch)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - the only thing that a task asks Spark

        context = TaskContext.get()
        assert context is not None, "a subtask runs inside a Spark task"
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="mixedmode-subtask-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            run = _SubtaskRun(self, context.partitionId(), folder, stack)
            for table in run.tables(batches):
                yield from table.to_batches()
            yield self._report_batch(run.report().encode())

    def _report_batch(self, report: bytes) -> pa.RecordBatch:
        empty = [pa.nulls(1, field.type) for field in self.output_schema if field.name != REPORT_COLUMN]
        return pa.record_batch([*empty, pa.array([report], pa.binary())], schema=self.output_schema)


class _SubtaskRun:
    """The steps of one subtask, in order: receive, sort, process, store."""

    def __init__(self, task: SubtaskTask, subtask: int, folder: Path, stack: ExitStack) -> None:
        self._task = task
        self._subtask = subtask
        self._folder = folder
        self._stack = stack
        self._unique = uuid.uuid4().hex[:16]
        self._records = 0
        self._max_time_us: int | None = None
        self._rows_out = 0
        self._merged: list[RunFile] = []
        self._groups = group_range(subtask, parallelism=task.parallelism, max_parallelism=task.max_parallelism)
        self._runs = stack.enter_context(RunWriter(folder / "runs"))
        self._outputs = OutputWriter(task.sink, task.epoch, subtask, folder) if task.sink else None
        operator = task.stage.operator
        combine = operator.combine if isinstance(operator, AggregateOperator) else None
        self._sorter = stack.enter_context(
            ExternalSorter(
                budget_bytes=task.sort_memory_bytes,
                spill_dir=folder / "sort",
                combine=combine,
                whole_keys=combine is None,
            )
        )

    def tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Everything but the report. Yields the rows of an inner stage; the last stage's rows go to its output file."""
        self._receive(batches)
        reach("sort", self._task.epoch)
        backend = self._backend()
        for table in self._sorter.sorted_tables():
            yield from self._process(table, backend)

    def report(self) -> SubtaskReport:
        """Stores runs and outputs, and says what they are."""
        started = time.perf_counter()
        runs = self._store_runs()
        migration_seconds = self._runs.seconds + time.perf_counter() - started
        outputs = self._outputs.finish(paths.attempt(self._task.generation, self._unique)) if self._outputs else ()
        reach("runs-stored", self._task.epoch)
        return SubtaskReport(
            subtask=self._subtask,
            records=self._records,
            max_time_us=self._max_time_us,
            pairs=sum(run.entries for run in runs),
            rows_out=self._rows_out,
            spilled_runs=self._sorter.stats.spilled_runs,
            migration_seconds=migration_seconds,
            runs=runs,
            merged=tuple(self._merged),
            outputs=outputs,
        )

    def _receive(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            for row in range(batch.num_rows):  # a row is a block of some megabytes
                subtask, records, max_time_us, block, failure = (column[row] for column in batch.columns)
                if failure.is_valid:
                    raise decode_failure(failure.as_py())
                assert subtask.as_py() == self._subtask, (subtask, self._subtask)
                self._records += records.as_py()
                if max_time_us.is_valid:
                    known = self._max_time_us
                    self._max_time_us = max_time_us.as_py() if known is None else max(known, max_time_us.as_py())
                self._sorter.add_sorted(decode_block(block.as_buffer()))

    def _process(self, table: pa.Table, backend: KeyedStateBackend) -> Iterator[pa.Table]:
        stage = self._task.stage
        for changes in stage.operator.process(table, backend):
            if self._outputs is not None:
                rows = changes.upserts(stage.key_schema, stage.result_fields)
                self._outputs.write(rows)
                self._rows_out += rows.num_rows
            else:
                rows = changes.change_log(stage.key_schema, stage.result_fields)
                self._rows_out += rows.num_rows
                yield _with_report_column(rows, self._task.output_schema)

    def _backend(self) -> KeyedStateBackend:
        """The single-key backend where no state precedes sorted input, RocksDB everywhere else."""
        state = self._task.state
        if state is None or not self._task.stage.operator.states:
            return SingleKeyBackend(None)
        if self._task.path == "sorted" and not state.runs:
            return SingleKeyBackend(self._runs)
        runs = [run for run in state.runs if _overlaps(run, self._groups)]
        store = ObjectStore(state.checkpoint_url)
        self._merged = [
            merged
            for descriptor in self._task.stage.operator.states
            for merged in self._merge([run for run in runs if run.state_id == descriptor.state_id], store)
        ]
        wanted = [WantedRun(run.path, _Fetch(store, run), run.merged_from) for run in runs]
        replica = open_replica(self._replica_folder(state), wanted, attempt=self._unique)
        self._stack.callback(replica.close)
        groups = self._groups.end - self._groups.start
        per_group = {
            descriptor.state_id: sum(run.entries for run in runs if run.state_id == descriptor.state_id) / groups
            for descriptor in self._task.stage.operator.states
        }
        return RocksDBBackend(replica.database, self._runs, per_group)

    def _replica_folder(self, state: StateTask) -> Path:
        job = uuid.uuid5(uuid.NAMESPACE_URL, state.checkpoint_url).hex[:16]
        name = f"{self._task.stage.operator_id}-{self._groups.start}-{self._groups.end}"
        return Path(tempfile.gettempdir()) / f"mixedmode-{os.getuid()}" / "replicas" / job / name

    def _store_runs(self) -> tuple[RunFile, ...]:
        state = self._task.state
        if state is None:
            return ()
        store = ObjectStore(state.checkpoint_url)
        return tuple(self._store_run(run, store) for run in self._runs.finish())

    def _store_run(self, run: LocalRun, store: ObjectStore, *, merged_from: Sequence[str] = ()) -> RunFile:
        kind = "m" if merged_from else "s"
        unique = paths.attempt(self._task.generation, f"{self._unique}{kind}{run.state_id}")
        path = paths.run_path(self._task.stage.operator_id, self._task.epoch, self._subtask, unique)
        store.put_file(run.path, path)
        return RunFile(
            path=path,
            state_id=run.state_id,
            bytes=run.path.stat().st_size,
            entries=run.entries,
            key_group_start=self._groups.start,
            key_group_end=self._groups.end,
            checksum=file_checksum(run.path),
            merged_from=tuple(merged_from),
        )

    def _merge(self, runs: Sequence[RunFile], store: ObjectStore) -> Iterator[RunFile]:
        """The newest runs of one state and of just these key groups, merged if enough of them have gathered."""
        own = list(takewhile(lambda run: _range(run) == self._groups, reversed(runs)))[::-1]
        start = decide_merge([run.entries for run in own])
        if start is None:
            return
        chosen = own[start:]
        folder = self._folder / f"merge-{chosen[0].state_id}"
        with RunWriter(folder / "run") as writer:
            merged = merge_runs(
                folder,
                [WantedRun(run.path, _Fetch(store, run)) for run in chosen],
                state_id=chosen[0].state_id,
                keeps_tombstones=len(chosen) < len(runs),
                writer=writer,
            )
            yield self._store_run(merged, store, merged_from=[run.path for run in chosen])


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Brings a committed run to a local path, verified."""

    store: ObjectStore
    run: RunFile

    def __call__(self, local_path: Path) -> None:
        found = self.store.fetch_file(self.run.path, local_path)
        if not found or local_path.stat().st_size != self.run.bytes or not self._matches(local_path):
            msg = (
                "a committed run of the state is missing or damaged, so the state cannot be read. Restore the "
                "checkpoint folder from a copy, or go back to an older checkpoint. "
                f"run={self.store.url}/{self.run.path}, is_there={found}, bytes_committed={self.run.bytes}"
            )
            raise CorruptStateError(msg)

    def _matches(self, local_path: Path) -> bool:
        return file_checksum(local_path) == self.run.checksum


def _range(run: RunFile) -> KeyGroupRange:
    return KeyGroupRange(run.key_group_start, run.key_group_end)


def _overlaps(run: RunFile, groups: KeyGroupRange) -> bool:
    return run.key_group_start < groups.end and groups.start < run.key_group_end


def _with_report_column(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([*rows.columns, pa.nulls(rows.num_rows, pa.binary())], names=schema.names).cast(schema)
