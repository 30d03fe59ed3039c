"""Branches of one source that do not depend on each other: the seconds of an epoch, side by side and one by one.

    python bench/branches.py [--events 1000000] [--epochs 6] [--branches 2] [--parallelism 1 2]

Each branch sums up by a key of its own. Epochs take turns: in one of them the branches run at the same time, in the
next one after the other. So their ratio holds on a machine whose speed changes. A busy core is a second of the CPU per
second, of this process and all of its children.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.driver.events import EpochCommitted, EpochStarted, Event
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.executor import spark
from mixedmode.job import Job, Sink, Source
from mixedmode.spark.side_by_side import SideBySide

ResultT = TypeVar("ResultT")
KEYS = 1_000_000
_WARM = 2  # epochs that do not count


class Turns:
    """The epochs that run their branches one by one, and the seconds of each epoch."""

    def __init__(self) -> None:
        self.number = 0
        self.seconds: dict[bool, list[float]] = {False: [], True: []}
        self.busy: dict[bool, list[float]] = {False: [], True: []}
        self._cpu = 0.0

    @property
    def is_one_by_one(self) -> bool:
        """Return whether the branches of the epoch under way run one by one."""
        return self.number % 2 == 1

    def __call__(self, event: Event) -> None:
        """Take the figures of an epoch."""
        if isinstance(event, EpochStarted):
            self._cpu = _cpu_seconds()
        elif isinstance(event, EpochCommitted):
            if self.number >= _WARM:
                self.seconds[self.is_one_by_one].append(event.seconds)
                self.busy[self.is_one_by_one].append((_cpu_seconds() - self._cpu) / event.seconds)
            self.number += 1


def main() -> None:
    """Print a line for each parallelism."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=6, help="of each kind")
    parser.add_argument("--branches", type=int, default=2)
    parser.add_argument("--parallelism", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for parallelism in given.parallelism:
        with tempfile.TemporaryDirectory(prefix="branches-") as name:
            turns = _measured(Path(name), given.events, 2 * given.epochs + _WARM, given.branches, parallelism)
        beside, after = (statistics.median(turns.seconds[kind]) for kind in (False, True))
        cores = [statistics.median(turns.busy[kind]) for kind in (False, True)]
        ratios = sorted(a / b for a, b in zip(turns.seconds[False], turns.seconds[True], strict=False))
        spread = f"{ratios[len(ratios) // 4]:.2f} .. {ratios[-len(ratios) // 4]:.2f}"
        print(
            f"parallelism {parallelism}, {given.branches} branches, {given.events} events an epoch: "
            f"{beside:.3f} s side by side, {after:.3f} s one by one, ratio {statistics.median(ratios):.2f} ({spread}); "
            f"busy cores {cores[0]:.2f} and {cores[1]:.2f}"
        )


def _measured(folder: Path, events: int, epochs: int, branches: int, parallelism: int) -> Turns:
    turns = Turns()

    class InTurns(SideBySide[ResultT]):
        """Actions side by side, or, if it is their turn, one branch after the other."""

        def start(self, name: str, action: Callable[[], ResultT]) -> None:
            super().start(name, action)
            if turns.is_one_by_one and name.startswith("branch"):
                self._threads[name].join()

    vars(spark)["SideBySide"] = InTurns
    (folder / "in").mkdir()
    rng = np.random.default_rng(1)
    for number in range(epochs):
        keys = {f"k{branch}": rng.integers(0, KEYS, events) for branch in range(branches)}
        pq.write_table(pa.table({**keys, "v": rng.integers(0, 9, events)}), folder / "in" / f"{number:04}.parquet")
    schema = ", ".join(f"{name} long" for name in (*(f"k{branch}" for branch in range(branches)), "v"))
    job = Job(
        "branches",
        sources={"events": Source.parquet(folder / "in", schema=schema, max_files_per_epoch=1)},
        mode="streaming",
        parallelism=parallelism,
        checkpoint_dir=folder / "checkpoints",
        spark={"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "2g"},
    )
    for branch in range(branches):
        stream = job.source("events").key_by(f"k{branch}", name=f"branch{branch}")
        sums = stream.aggregate(n="count(*)", total="sum(v)")
        job = job.output(f"o{branch}", sums, Sink.parquet(folder / "out" / str(branch)))
    run_job(job.spec, job.where, RunOptions(until=Until.IDLE, observers=[turns]))
    return turns


def _cpu_seconds() -> float:
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
