"""Shared by all benchmarks: their size, their data, the one Spark session, and the report at the end.

`pytest bench` is the full size; `pytest bench --events 200000 --keys 20000` is a quick look, in which the targets mean
nothing. What `mixedmode bench` measures is here at a smaller size, for pytest-benchmark to compare with earlier runs.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.report import RESULTS, Report
from bench.scale import FULL, PARALLELISM, Scale
from mixedmode_bench.answers import Answers
from mixedmode_bench.contestant import Contestant, Outcome, Task
from mixedmode_bench.contestants import ENDS_INPUT, make_contestant
from mixedmode_bench.data import Data, data_for
from mixedmode_bench.ours import Mixed
from mixedmode_bench.rounds import live_epochs
from mixedmode_bench.workload import Size, Workload

_REPORT = pytest.StashKey[Report]()

Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mixedmode")
    group.addoption("--events", type=int, default=FULL.events, help="events that the sizes of the suites follow")
    group.addoption("--keys", type=int, default=FULL.keys, help="keys in the backlog; the live epochs have twice them")
    group.addoption("--rounds", type=int, default=FULL.rounds, help="times that each backlog is measured")
    group.addoption(
        "--workload-events",
        type=int,
        default=FULL.workload_events,
        help="the most events of a workload of `mixedmode bench`",
    )
    group.addoption("--sort-memory", type=int, default=256, help="the sorter's budget in MiB; ten times it is sorted")


def pytest_configure(config: pytest.Config) -> None:
    options = {name: config.getoption(name) for name in ("events", "keys", "rounds", "workload_events")}
    try:
        config.stash[_REPORT] = Report(Scale.checked(**options))
    except ValueError as error:
        raise pytest.UsageError(*error.args) from error
    if hasattr(os, "sched_setaffinity"):  # on a larger machine, too, all processes together have the same two cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PARALLELISM])


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    report = config.stash[_REPORT]
    if not report.figures:
        return
    terminalreporter.section("mixedmode")
    terminalreporter.write_line(report.as_text())
    report.write_json(RESULTS)
    terminalreporter.write_line(f"every value: {RESULTS.relative_to(config.rootpath)}")


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    return pytestconfig.stash[_REPORT]


@pytest.fixture(scope="session")
def scale(report: Report) -> Scale:
    return report.scale


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Says something at once: a round of the benchmarks takes longer than one likes to look at nothing."""

    def say_it(text: str) -> None:
        with capsys.disabled():
            print(f"  {text}", flush=True)

    say_it("")  # ends the line that names the test
    return say_it


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A session of Spark for suites that read and run by themselves."""
    found = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = found.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """The folder for all that this run writes, its temporary files included. It is removed at the end."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="mixedmode-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        yield Path(folder)
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


@pytest.fixture
def work(scratch: Path) -> Iterator[Callable[[], Path]]:
    """Gives the name of a new folder at each call; all that are left are removed with `scratch`."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=scratch, ignore_cleanup_errors=True) as folder:
        numbers = itertools.count()
        yield lambda: Path(folder) / str(next(numbers))


@dataclass(frozen=True, slots=True)
class Course:
    """One workload in one size, over which contestants of `mixedmode bench` run in this process."""

    workload: Workload
    size: Size
    data: Data
    scratch: Path

    def task(self) -> Task:
        """A run, in a folder that is empty. What the run before it wrote is gone."""
        work = self.scratch / "course"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        return Task(self.workload, self.size, self.data.tables, work, self.data.waiting)

    def run(self, contestant: Contestant) -> tuple[Task, Outcome]:
        """One run."""
        task = self.task()
        contestant.prepare(task)
        return task, contestant.run(task)

    def check_run(self, contestant: Contestant, task: Task) -> None:
        """Compare what the contestant's last run gave."""
        file = task.work.with_suffix(".answer")
        pq.write_table(contestant.answer(task), file)
        self.check(contestant, file)

    def check(self, contestant: Contestant, file: Path) -> None:
        """Compare an answer in a file."""
        with Answers(self.workload, self.data, self.scratch) as answers:
            answers.check(contestant.name, file, may_lack=contestant.name not in ENDS_INPUT)


@pytest.fixture(scope="session")
def course(scratch: Path) -> Callable[[Workload, Size], Course]:
    """The data of a workload, written once."""
    return lambda workload, size: Course(workload, size, data_for(workload, size, scratch / "data"), scratch)


@pytest.fixture(scope="session")
def contestant(scratch: Path) -> Iterator[Callable[[str], Contestant]]:
    """Contestants by name, started. Those that run on Spark share one session, as a process can have one only."""
    session = Mixed()
    started: dict[str, Contestant] = {}

    def get(name: str) -> Contestant:
        if not started:
            session.start(_folder(scratch / "spark"), PARALLELISM)
            started[session.name] = session
        if name not in started:
            made = make_contestant(name)
            missing = made.missing()
            if missing is not None:
                pytest.skip(f"{name} lacks {missing}")
            made.start(_folder(scratch / name), PARALLELISM)
            started[name] = made
        return started[name]

    yield get
    for made in reversed(started.values()):  # the session that they share ends last
        made.close()


def live_seconds(outcome: Outcome) -> list[float]:
    """Of its live epochs, without the first one, which opens the state."""
    return [span.seconds for span in live_epochs(outcome, "")]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
