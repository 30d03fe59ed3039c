"""The growth of the work with the number of subtasks: `mixedmode bench cores`.

A backlog of count-sum runs with 1, 2, 4, 8 and 16 map tasks and as many subtasks. All of them run one after the other
in this process, without Spark, so the processor time of each is known, and no other task disturbs it. Perfect scaling
is the same processor time per record for every number, and each distinct key in one row of the exchange.

    serial seconds    of the longest map task and of the longest subtask: the time that no further core could shorten;
                      of a map task for the machine, of the longest lane in each of its turns

For these figures the lanes of a machine run in turn. What threads save on this machine is measured apart.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table
from typing_extensions import override

from mixedmode.executor.local import LocalExecutor
from mixedmode.executor.local_run import LocalRun
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import BlockKind, MapSide
from mixedmode.tasks.machine_side import InTurn, MachineSide, T, Threads, U, combines_on_machine
from mixedmode.tasks.reports import SubtaskReport
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.testing.local_plan import local_plan
from mixedmode_bench.contestants import find_workload
from mixedmode_bench.data import data_for
from mixedmode_bench.events import EVENTS
from mixedmode_bench.workload import Size

CORES, WORKLOAD = "cores", "count-sum"
SUBTASKS = (1, 2, 4, 8, 16)
GROWTH_MAX, ROWS_MAX = 1.4, 1.3  # of processor time per record at 16 subtasks; of rows of the exchange by key


@dataclass(frozen=True, slots=True)
class Growth:
    """The figures of a run with this number of subtasks.

    `map_seconds` and `subtask_seconds`: processor time, added up over all tasks of the kind. `elapsed_by_threads`:
    {number of threads: seconds that pass while they run the map task for the machine}; empty without such a task.
    """

    subtasks: int
    map_seconds: float
    subtask_seconds: float
    serial_seconds: float
    shuffled_bytes: int
    shuffled_rows: int
    elapsed_by_threads: Mapping[int, float]

    @property
    def seconds(self) -> float:
        """Return the processor time of all tasks."""
        return self.map_seconds + self.subtask_seconds


def measure_cores(size: Size, root: Path, rounds: int, say: Callable[[str], None]) -> list[Growth]:
    """Return the figures for each number of subtasks: of the round with the median processor time."""
    data = data_for(find_workload(WORKLOAD), size, root)
    table = pq.read_table(data.tables / EVENTS).combine_chunks()
    found = []
    for subtasks in SUBTASKS:
        tables = _parts(table, subtasks)
        runs = [_run(tables, subtasks) for _ in range(rounds + 1)][1:]  # the first one warms
        middle = median(run.seconds for run in runs)
        found.append(min(runs, key=lambda run: abs(run.seconds - middle)))
        say(f"  {subtasks:2} subtasks  {found[-1].seconds:6.2f} s of processor time")
    return found


def growth_table(growths: Sequence[Growth], size: Size) -> Table:
    """Return the figures, and whether the targets are met."""
    table = Table(box=None, pad_edge=False)
    headings = ("subtasks", "CPU us/record", "map", "subtask", "serial s", "MB shuffled", "rows shuffled", "rows/key")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in growths:
        per_record = (1e6 * seconds / size.events for seconds in (one.seconds, one.map_seconds, one.subtask_seconds))
        rows = f"{one.shuffled_rows:,}", f"{one.shuffled_rows / size.keys:.2f}"
        texts = (f"{value:.3f}" for value in per_record)
        table.add_row(str(one.subtasks), *texts, f"{one.serial_seconds:.2f}", f"{one.shuffled_bytes / 1e6:,.1f}", *rows)
    return table


def threads_text(growth: Growth) -> str:
    """Return what threads save of the time of a map task for the machine, which there must be."""
    times = (f"{seconds:.2f} s with {threads}" for threads, seconds in growth.elapsed_by_threads.items())
    return f"map task of {growth.subtasks} lanes, by number of threads: {', '.join(times)}"


def verdicts(growths: Sequence[Growth], size: Size) -> list[str]:
    """Return a line for each target."""
    growth = growths[-1].seconds / growths[0].seconds
    rows = growths[-1].shuffled_rows / size.keys
    return [
        _verdict("processor time per record, last to first", growth, GROWTH_MAX),
        _verdict("rows/key", rows, ROWS_MAX),
    ]


def _verdict(what: str, value: float, at_most: float) -> str:
    return f"{what}: {value:.2f}, target at most {at_most}: {'met' if value <= at_most else 'missed'}"


def _parts(table: pa.Table, tasks: int) -> list[pa.Table]:
    """Return the records of each of so many map tasks."""
    ends = [number * table.num_rows // tasks for number in range(tasks + 1)]
    return [table.slice(begin, end - begin) for begin, end in pairwise(ends)]


def _run(tables: Sequence[pa.Table], subtasks: int) -> Growth:
    executor = _TimedExecutor()
    with TemporaryDirectory(prefix="mixedmode-cores-") as folder:
        job = find_workload(WORKLOAD).job(Path(folder), Path(folder), "mixed")
        spec = job.spec.model_copy(update={"parallelism": subtasks})
        run = LocalRun(spec, local_plan(spec, job.where), Path(folder), clock_ms=0, executor=executor)
        try:
            run.run_backlog({EVENTS: tables})
        finally:
            run.close()
            shutil.rmtree(folder, ignore_errors=True)
    return executor.growth(subtasks)


@dataclass(frozen=True, slots=True)
class _TimedExecutor(LocalExecutor):
    """Runs tasks one after the other, and notes the processor time of each."""

    maps: list[float] = field(default_factory=list)
    map_serial: list[float] = field(default_factory=list)  # of each task, or of the lanes of a machine
    subtasks: list[float] = field(default_factory=list)
    blocks: list[pa.RecordBatch] = field(default_factory=list)
    elapsed: dict[int, float] = field(default_factory=dict)  # {threads: seconds}, of the map task for the machine

    def growth(self, subtasks: int) -> Growth:
        """Return the figures of the run."""
        shuffled = [
            batch.column("block")[0] for batch in self.blocks if batch.column("kind")[0].as_py() == BlockKind.ROWS
        ]
        return Growth(
            subtasks,
            sum(self.maps),
            sum(self.subtasks),
            max(self.map_serial) + max(self.subtasks),
            sum(len(block.as_buffer()) for block in shuffled),
            sum(decode_block(block.as_buffer()).num_rows for block in shuffled),
            self.elapsed,
        )

    @override
    def _mapped(self, task: MapSide, lanes: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        kept = [list(lane) for lane in lanes]
        made: list[pa.RecordBatch] = []
        is_one_task = combines_on_machine(task, len(kept))
        began = time.process_time()
        if is_one_task:
            workers = _TimedInTurn()
            made += MachineSide(task, workers).blocks([iter(lane) for lane in kept], task.note())
            self.map_serial.append(workers.serial_seconds)
        else:
            for lane in kept:
                lane_began = time.process_time()
                made += task(iter(lane))
                self.map_serial.append(time.process_time() - lane_began)
        self.maps.append(time.process_time() - began)
        if is_one_task:
            self._time_threads(task, kept)
        self.blocks.extend(made)
        return iter(made)

    def _time_threads(self, task: MapSide, lanes: Sequence[Sequence[pa.RecordBatch]]) -> None:
        for threads in sorted({1, os.cpu_count() or 1}):
            began = time.perf_counter()
            for _ in MachineSide(task, Threads(threads)).blocks([iter(lane) for lane in lanes], task.note()):
                pass
            self.elapsed[threads] = time.perf_counter() - began

    @override
    def _run_stage(
        self, task: SubtaskTask, blocks: Sequence[Sequence[pa.RecordBatch]]
    ) -> list[tuple[SubtaskReport, pa.Table]]:
        found = []
        for number, own in enumerate(blocks):
            began = time.process_time()
            found.append(self._run_subtask(task, own, number))
            self.subtasks.append(time.process_time() - began)
        return found


class _TimedInTurn(InTurn):
    """Runs one lane after the other, and adds up the processor time of the longest one of each turn."""

    serial_seconds = 0.0

    @override
    def map(self, function: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
        longest = 0.0
        for item in items:
            began = time.process_time()
            result = function(item)
            longest = max(longest, time.process_time() - began)
            yield result
        self.serial_seconds += longest
