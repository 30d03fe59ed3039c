"""The growth of the work with the number of subtasks: `mixedmode bench cores`.

A backlog of count-sum runs with 1, 2, 4, 8 and 16 map tasks and as many subtasks. All of them run one after the other
in this process, without Spark, so the processor time of each is known, and no other task disturbs it. Perfect scaling
is the same processor time per record for every number.

    serial seconds    of the longest map task and of the longest subtask: the time that no further core could shorten
    rows/key          rows of the exchange, folded or not, for each distinct key
"""

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table
from typing_extensions import override

from mixedmode.cli.consoles import plain_table
from mixedmode.executor.local import LocalExecutor
from mixedmode.executor.local_run import LocalRun
from mixedmode.tasks.block_rows import BlockKind
from mixedmode.tasks.blocks import decode_block
from mixedmode.tasks.exchange import MapSide
from mixedmode.tasks.reports import SubtaskReport
from mixedmode.tasks.subtask import SubtaskTask
from mixedmode.testing.local_plan import local_plan
from mixedmode_bench.contestants import find_workload
from mixedmode_bench.data import data_for
from mixedmode_bench.events import EVENTS
from mixedmode_bench.workload import Size

CORES, WORKLOAD = "cores", "count-sum"
SUBTASKS = (1, 2, 4, 8, 16)
GROWTH_MAX = 1.4  # of processor time per record, at 16 subtasks
_EXCHANGED = (BlockKind.ROWS, BlockKind.RECORDS)


@dataclass(frozen=True, slots=True)
class Growth:
    """The figures of a run with this number of subtasks.

    `map_seconds` and `subtask_seconds`: processor time, added up over all tasks of the kind.
    """

    subtasks: int
    map_seconds: float
    subtask_seconds: float
    serial_seconds: float
    shuffled_bytes: int
    shuffled_rows: int

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
    headings = ("subtasks", "CPU us/record", "map", "subtask", "serial s", "MB shuffled", "rows shuffled", "rows/key")
    table = plain_table(headings, numbers=headings)
    for one in growths:
        per_record = (1e6 * seconds / size.events for seconds in (one.seconds, one.map_seconds, one.subtask_seconds))
        rows = f"{one.shuffled_rows:,}", f"{one.shuffled_rows / size.keys:.2f}"
        texts = (f"{value:.3f}" for value in per_record)
        table.add_row(str(one.subtasks), *texts, f"{one.serial_seconds:.2f}", f"{one.shuffled_bytes / 1e6:,.1f}", *rows)
    return table


def verdict(growths: Sequence[Growth]) -> str:
    """Return whether the target is met, and by which value."""
    growth = growths[-1].seconds / growths[0].seconds
    met = "met" if growth <= GROWTH_MAX else "missed"
    return f"processor time per record, last to first: {growth:.2f}, target at most {GROWTH_MAX}: {met}"


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
    subtasks: list[float] = field(default_factory=list)
    blocks: list[pa.RecordBatch] = field(default_factory=list)

    def growth(self, subtasks: int) -> Growth:
        """Return the figures of the run."""
        shuffled = [batch.column("block")[0] for batch in self.blocks if batch.column("kind")[0].as_py() in _EXCHANGED]
        return Growth(
            subtasks,
            sum(self.maps),
            sum(self.subtasks),
            max(self.maps) + max(self.subtasks),
            sum(len(block.as_buffer()) for block in shuffled),
            sum(decode_block(block.as_buffer()).num_rows for block in shuffled),
        )

    @override
    def _run_map(self, task: MapSide, table: pa.Table) -> Iterable[pa.RecordBatch]:
        began = time.process_time()
        made = list(task(iter(table.to_batches())))
        self.maps.append(time.process_time() - began)
        self.blocks.extend(made)
        return made

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
