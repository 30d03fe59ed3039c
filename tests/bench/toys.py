"""A workload of a few rows, and contestants that do it in plain Python: well, wrongly, or not to the end."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.job import Job
from mixedmode_bench.contestant import EpochSpan, Outcome, Task
from mixedmode_bench.workload import Mode, Size, Workload


def workers_left() -> list[psutil.Process]:
    """Workers of this process, or of what it has started, that still run."""
    return [process for process in psutil.Process(os.getpid()).children(recursive=True) if _is_worker(process)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "multiprocessing.spawn" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # gone meanwhile, or a zombie
        return False


def write_events(folder: Path, size: Size) -> None:
    (folder / "events").mkdir()
    for part in range(2):
        numbers = range(part, size.events, 2)
        rows = {"k": [n % size.keys for n in numbers], "v": [n / 10 for n in numbers]}
        pq.write_table(pa.table(rows), folder / "events" / f"part-{part}.parquet")


def no_job(_data: Path, _work: Path, _mode: Mode) -> Job:
    raise NotImplementedError


TINY = Workload(
    name="tiny",
    title="counts and sums of a few rows",
    size=Size(100, 7),
    write=write_events,
    job=no_job,
    key=("k",),
    answer="SELECT k, count(*) AS n, sum(v) AS total FROM events GROUP BY k",
)
WORKLOAD = "tests.bench.toys:TINY"


class Plain:
    """Adds up with pyarrow, and prints on stdout, which must not matter."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "pyarrow, in one process"
    events_max: ClassVar[Mapping[str, int]] = {}

    def missing(self) -> str | None:
        return None

    def takes(self, workload: Workload) -> bool:
        return workload.feed is None

    def start(self, scratch: Path, cores: int) -> None:
        assert scratch.is_dir()
        assert tempfile.gettempdir().startswith(str(scratch))
        assert cores >= 1
        sys.stdout.write("started\n")

    def prepare(self, task: Task) -> None:
        assert (task.data / "events").is_dir()

    def run(self, task: Task) -> Outcome:
        assert not list(task.work.iterdir())
        events = pq.read_table(task.data / "events")
        counted = events.group_by("k").aggregate([([], "count_all"), ("v", "sum")])
        pq.write_table(counted.rename_columns(["k", "n", "total"]), task.work / "out.parquet")
        span = EpochSpan(0.0, 0.5, events.num_rows, is_backlog=True)
        return Outcome(0.5, {"read": 0.25}, (span,), {"sum": 0.25})

    def free_memory(self) -> None:
        sys.stdout.write("freed\n")

    def answer(self, task: Task) -> pa.Table:
        return pq.read_table(task.work / "out.parquet")

    def close(self) -> None:
        sys.stdout.write("closed\n")


class TellsJava(Plain):
    """Prints the options that Java gets."""

    name = "tells-java"

    def start(self, scratch: Path, cores: int) -> None:
        sys.stdout.write(f"{os.environ['JDK_JAVA_OPTIONS']}\n")


class Part(Plain):
    """Runs a part only."""

    name = "part"
    events_max: ClassVar[Mapping[str, int]] = {"": 50}

    def run(self, task: Task) -> Outcome:
        assert task.size == Size(50, 3)
        return super().run(task)


class Remembers(Plain):
    """Tells, as a part, over how many events it ran before."""

    name = "remembers"
    _before = 0

    def run(self, task: Task) -> Outcome:
        before, self._before = self._before, task.size.events
        super().run(task)
        return Outcome(0.5, {"events before": before})


class Wrong(Plain):
    """One count is off by one."""

    name = "wrong"

    def answer(self, task: Task) -> pa.Table:
        rows = super().answer(task).sort_by("k").to_pylist()
        rows[3]["n"] += 1
        return pa.Table.from_pylist(rows)


class Missing(Plain):
    """Is not there."""

    name = "missing"

    def missing(self) -> str | None:
        return "the package nothing: pip install nothing"


class Unable(Plain):
    """Computes nothing."""

    name = "unable"

    def takes(self, workload: Workload) -> bool:
        return workload.name != TINY.name


class Raises(Plain):
    """Fails in its run."""

    name = "raises"

    def run(self, task: Task) -> Outcome:
        msg = f"no run of {task.workload.name}"
        raise ValueError(msg)


class Dies(Plain):
    """Its process ends in its run."""

    name = "dies"

    def run(self, _task: Task) -> Outcome:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)


class Hangs(Plain):
    """Waits in its run for what nobody sends, in a process of its own too, which has a group of its own."""

    name = "hangs"

    def run(self, task: Task) -> Outcome:
        mine, theirs = os.pipe()
        if os.fork() == 0:
            os.setsid()
            (task.work / "child").write_text(str(os.getpid()))
            os.read(mine, 1)
        os.read(mine, 1)
        os.close(theirs)
        return Outcome(0.0)
