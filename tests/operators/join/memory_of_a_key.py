"""A process that joins many rows of one key with a few of the other side, and prints by how many bytes it has grown.

It does what a subtask does: sorted tables, a single-key backend, state as runs. "regular-live" goes on with an epoch in
which a row of the other side is added, so that all of the stored rows are read. Arguments: the join, the side with many
rows, their number, the memory of the task, a folder.
"""

import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from mixedmode.keys import KeyGroupRange, KeySchema
from mixedmode.operators.interface import Batch, SubtaskContext
from mixedmode.operators.join import (
    AsOfJoinOperator,
    IntervalJoinOperator,
    JoinLayout,
    OutputColumn,
    RegularJoinOperator,
)
from mixedmode.operators.running import outputs_of, sorter_for
from mixedmode.profile import Profile
from mixedmode.state import SingleKeyBackend
from mixedmode.state.rocksdb import LocalRun, RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.replica import WantedRun
from mixedmode.tasks.memory import MemoryShares, share_memory
from mixedmode.time import MIN_TIME_US, EpochTime

FEW, BATCH_ROWS = 5, 100_000
GROUPS = KeyGroupRange(0, 4)
LAYOUT = JoinLayout(
    KeySchema((pa.field("k", pa.int64()),)),
    ((pa.field("v", pa.int64()),), (pa.field("w", pa.int64()),)),
    (OutputColumn("v", 0, 0), OutputColumn("w", 1, 0)),
)
Operator = AsOfJoinOperator | IntervalJoinOperator | RegularJoinOperator


def operator_of(join: str) -> Operator:
    """Return the operator of a join; that by time has no rows that wait, but those of an interval."""
    if join == "as-of":
        return AsOfJoinOperator(LAYOUT, True, False, None, (), None, event_time=None)
    if join == "interval":
        return IntervalJoinOperator(LAYOUT, "full", (-1000, 1000), event_time=None, adds_time=False)
    return RegularJoinOperator(LAYOUT, "full", is_changelog=False)


def batch(side: int, first: int, rows: int, step_us: int) -> Batch:
    """Return rows of one key, in the order of their times."""
    numbers = np.arange(first, first + rows)
    values, nulls = pa.array(numbers * 7919 % 2**31), pa.nulls(rows, pa.int64())
    return Batch(
        keys=[pa.array(np.zeros(rows, np.int64))],
        arguments=[nulls, values] if side else [values, nulls],
        times_us=numbers * step_us,
        weights=None,
        sides=np.full(rows, side, np.uint8),
    )


def joined_rows(operator: Operator, join: str, side: int, rows: int, setting: int, folder: Path) -> int:
    """Return the number of rows of the result."""
    time = EpochTime(
        late_us=MIN_TIME_US,
        firing_us=20 * rows,
        clock_ms=0,
        clock_before_ms=None,
        is_backlog=True,
        was_backlog=None,
        is_final=False,
    )
    shares = share_memory(setting, operator.attributes, "sorted")
    batches = [batch(1 - side, 0, FEW, 10 * rows // FEW)]
    found, goes_on = 0, join == "regular-live"
    with (
        sorter_for(operator, budget_bytes=shares.sort_bytes, spill_dir=folder) as sorter,
        RunWriter(folder / "runs", columns_bytes=shares.columns_bytes) as writer,
    ):
        for first in range(0, rows, BATCH_ROWS):
            batches.append(batch(side, first, min(BATCH_ROWS, rows - first), 10))
            for one in batches:
                sorter.add(operator.fold(one, late_us=MIN_TIME_US, max_parallelism=GROUPS.end).table)
            batches.clear()
        context = SubtaskContext(
            SingleKeyBackend(writer), time, GROUPS, 0, memory_bytes=shares.key_bytes, spill_dir=folder
        )
        for given in outputs_of(operator, sorter, context, Profile()):
            changes = given.changelog()  # type: ignore[union-attr]  # no join has side outputs
            found += changes.num_rows
        runs = writer.finish()
    return live_rows(operator, 1 - side, runs, shares, folder, time) if goes_on else found


def live_rows(
    operator: Operator, side: int, runs: list[LocalRun], shares: MemoryShares, folder: Path, time: EpochTime
) -> int:
    """Return the number of rows of the result of an epoch with one row of a side."""
    added = operator.fold(batch(side, FEW, 1, 1), late_us=MIN_TIME_US, max_parallelism=GROUPS.end).table
    wanted = [WantedRun(str(run.path), partial(shutil.copyfile, run.path)) for run in runs]
    with (
        RunWriter(folder / "live") as writer,
        open_replica(folder / "replica", wanted, attempt="a", cache_bytes=shares.cache_bytes) as replica,
    ):
        backend = RocksDBBackend(replica, writer, dict.fromkeys((0, 1), sum(run.entries for run in runs) / GROUPS.end))
        context = SubtaskContext(backend, time, GROUPS, 1, memory_bytes=shares.key_bytes, spill_dir=folder)
        rows = [changes.changelog().num_rows for changes in operator.process(iter([added]), context)]
        writer.finish()
    shutil.rmtree(folder / "replica")
    return sum(rows)


def peak_bytes() -> int:
    """Return the most memory that this process ever had resident."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    join, side, rows, setting, folder = sys.argv[1:]
    pa.set_cpu_count(1)  # as in a Python worker of Spark
    operator = operator_of(join)
    joined_rows(operator, join, int(side), 1000, int(setting), Path(folder))
    before = peak_bytes()
    made = joined_rows(operator, join, int(side), int(rows), int(setting), Path(folder))
    expected = FEW * int(rows) if join == "regular" else int(rows)  # live, one row meets all of the others
    assert made >= expected, (made, expected)
    print(peak_bytes() - before)  # noqa: T201 - its result
