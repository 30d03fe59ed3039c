"""What all benchmarks share: their size, their data, the one Spark session, and the report at the end.

`pytest bench` is the full size; `pytest bench --events 200000 --keys 20000` is a quick look, in which the targets mean
nothing.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.ours import aggregate_job
from bench.peers import STATE_STORE
from bench.report import RESULTS, Report
from bench.workload import FULL, PARALLELISM, Scale, write_each_key_once, write_history, write_timed_history
from mixedmode.runtime.session import open_session

_REPORT = pytest.StashKey[Report]()

Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mixedmode")
    group.addoption("--events", type=int, default=FULL.events, help="events in the backlog")
    group.addoption("--keys", type=int, default=FULL.keys, help="keys in the backlog; the live epochs have twice them")
    group.addoption("--rounds", type=int, default=FULL.rounds, help="times that each backlog is measured")
    group.addoption("--sort-memory", type=int, default=256, help="the sorter's budget in MiB; ten times it is sorted")


def pytest_configure(config: pytest.Config) -> None:
    options = {name: config.getoption(name) for name in ("events", "keys", "rounds")}
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


@pytest.fixture(scope="session")
def session(scratch: Path) -> Iterator[SparkSession]:
    """The session that every measured query runs on."""
    spec = aggregate_job(scratch, scratch).spec
    settings = {f"spark.{key}": value for key, value in STATE_STORE.items()}
    session = open_session(spec.model_copy(update={"spark": {**spec.spark, **settings}}), log_folder=scratch / "logs")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def history(scratch: Path, scale: Scale) -> Path:
    """The backlog."""
    return write_history(scratch / "history", events=scale.events, keys=scale.keys)


@pytest.fixture(scope="session")
def each_key_once(scratch: Path, scale: Scale) -> Path:
    """The state before the live epochs."""
    return write_each_key_once(scratch / "each-key-once", keys=scale.live_keys)


@pytest.fixture(scope="session")
def timed_history(scratch: Path, scale: Scale) -> Path:
    """The backlog of windows."""
    return write_timed_history(scratch / "timed-history", events=scale.events, keys=scale.window_keys)


@pytest.fixture(scope="session")
def process_history(scratch: Path, scale: Scale) -> Path:
    """The backlog of the process function."""
    return write_history(scratch / "process-history", events=scale.process_events, keys=scale.process_keys)


@pytest.fixture
def work(scratch: Path) -> Iterator[Callable[[], Path]]:
    """Gives a new folder at each call; all that are left are removed with `scratch`."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=scratch, ignore_cleanup_errors=True) as folder:
        numbers = iter(range(1_000_000))
        yield lambda: Path(folder) / str(next(numbers))
