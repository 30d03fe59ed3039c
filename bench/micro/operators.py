"""Operators by themselves: batches folded and sorted, and epochs over real runs, as a subtask has them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.micro.stages import MAX_PARALLELISM
from mixedmode.config.execution import StateBacklogSpec
from mixedmode.keys import KeyGroupRange
from mixedmode.operators.interface import Batch, KeyedOperator, SideRows, SubtaskContext
from mixedmode.operators.running import sorter_for
from mixedmode.sort import sort_table
from mixedmode.state import SingleKeyBackend
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.replica import WantedRun
from mixedmode.time import MIN_TIME_US, EpochTime

GROUPS = KeyGroupRange(0, MAX_PARALLELISM)
CLOCK_MS = 1_700_000_000_000
SORT_MEMORY_BYTES = StateBacklogSpec().sort_memory_bytes


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of an epoch: the number of rows that it emitted, and the runs that it wrote."""

    rows: int
    runs: list[LocalRun]


def backlog_until(firing_us: int) -> EpochTime:
    """The first epoch of a job, which fires what is due up to there."""
    return EpochTime(MIN_TIME_US, firing_us, CLOCK_MS, None, is_backlog=True, was_backlog=None)


def live_between(fired_us: int, firing_us: int) -> EpochTime:
    """A live epoch, one second after the one before."""
    return EpochTime(fired_us, firing_us, CLOCK_MS + 1000, CLOCK_MS, is_backlog=False, was_backlog=False)


def folded(operator: KeyedOperator, batch: Batch) -> pa.Table:
    """Return the rows that arrive at a subtask that has all key groups."""
    return sort_table(operator.fold(batch, late_us=MIN_TIME_US, max_parallelism=MAX_PARALLELISM).table)


def run_backlog_epoch(operator: KeyedOperator, table: pa.Table, time: EpochTime, folder: Path) -> Ran:
    """Over no state."""
    with RunWriter(folder) as writer:
        context = SubtaskContext(SingleKeyBackend(writer), time, GROUPS, 0)
        return Ran(_process(operator, [table], context, folder), writer.finish())


@dataclass(frozen=True, slots=True)
class Stored:
    """State in the runs of earlier epochs, and a replica of it in `folder`."""

    runs: Sequence[LocalRun]
    folder: Path

    def run_live_epoch(self, operator: KeyedOperator, table: pa.Table, time: EpochTime) -> Ran:
        """From opening the replica to the new runs. State does not change: each call is the same epoch once more."""
        wanted = [WantedRun(str(run.path), partial(os.link, run.path), state_id=run.state_id) for run in self.runs]
        per_group = {run.state_id: run.entries / MAX_PARALLELISM for run in self.runs}
        with open_replica(self.folder, wanted, attempt="a") as replica, RunWriter(self.folder / "new") as writer:
            context = SubtaskContext(RocksDBBackend(replica, writer, per_group), time, GROUPS, 1)
            return Ran(_process(operator, [table, *operator.due(context)], context, self.folder), writer.finish())


def _process(operator: KeyedOperator, tables: Sequence[pa.Table], context: SubtaskContext, folder: Path) -> int:
    """Rows that sorted tables give."""
    with sorter_for(operator, budget_bytes=SORT_MEMORY_BYTES, spill_dir=folder / "sort") as sorter:
        for table in tables:
            sorter.add_sorted(table)
        given = operator.process(sorter.sorted_tables(), context)
        return sum(each.rows.num_rows if isinstance(each, SideRows) else each.upserts().num_rows for each in given)
