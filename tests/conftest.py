"""Shared by all tests: settings of hypothesis, the place of temporary files, and the Spark session of the process."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from mixedmode.checkpoint.locked_folder import locked_folder
from mixedmode.connectors.kafka.jars import kafka_connector, spark_avro
from mixedmode.errors import RetryableError
from mixedmode.state.rocksdb import columns
from tests.java import JAVA_OPTIONS
from tests.random_cases import random_cases
from tests.s3 import S3Server, s3_server
from tests.services.fixtures import database, kafka, own_kafka, own_postgres, postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["database", "kafka", "own_kafka", "own_postgres", "postgres"]  # fixtures, for pytest to find here

# No deadline: the machine may be busy, and a Spark job takes its time. Cases are chosen anew in every run; one that
# fails is printed as a blob that reproduces it. Where CI is set in the environment, hypothesis takes the same cases
# each time, so that a change is judged by what it changes.
settings.register_profile("mixedmode", max_examples=random_cases(25), deadline=None, print_blob=True)
settings.load_profile("mixedmode")


#: a folder in memory, on Linux, and the free bytes that a run of all tests has to find there
MEMORY, MEMORY_BYTES_MIN = Path("/dev/shm"), 6 * 2**30


def pytest_configure() -> None:
    """Keep the temporary files of tests in memory, where a folder in memory is large enough.

    A replica is opened in a sixth of the time there. Kills are of processes, not of machines, so no test needs a disk.
    PYTEST_DEBUG_TEMPROOT=<folder> names another place.
    """
    if has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def has_room(folder: Path) -> bool:
    """Return whether temporary files fit into this folder, and programs among them may be run."""
    if not folder.is_dir() or not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= MEMORY_BYTES_MIN


#: the memory of a process of the tests with its Spark, the Spark of a job that it starts, and a broker
PROCESS_BYTES = 4 * 2**30
PROCESSES_MAX = 8  # each one starts a Spark, a broker and a database of its own


def pytest_xdist_auto_num_workers() -> int:
    """Return one process more than there are cores: a test on Spark waits for a third of its time."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min((os.cpu_count() or 1) + 1, memory_bytes // PROCESS_BYTES, PROCESSES_MAX))


#: folders whose cases on Spark run in the session of the process
ONE_SESSION = {"analysis", "sources"}


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test that takes the session, and begin with the random walk: the other processes would wait for it.

    Raise UsageError for a case named after an address in memory: the processes would have other names for it; and for
    one that would begin Spark by itself.
    """
    for item in items:
        if " at 0x" in item.nodeid:
            msg = f"the name of this case is not the same in each process; give its values ids. case={item.nodeid}"
            raise pytest.UsageError(msg)
        takes_session = "spark" in getattr(item, "fixturenames", ())
        if item.get_closest_marker("spark") and not takes_session and ONE_SESSION & {*item.path.parts}:
            msg = (
                "this case would begin a session without the connectors that others need. Take the fixture spark. case="
            )
            raise pytest.UsageError(msg + item.nodeid)
        if takes_session:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: "walk" not in item.path.parts)


def pytest_collection_finish() -> None:
    """Leave the collected tests, half a million objects that stay, out of garbage collections: half a second each."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have recorded (record_property), such as the seed of a walk; also of those that passed."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        if report.user_properties and report.when == "call":
            found = ", ".join(f"{name}={value}" for name, value in report.user_properties)
            terminalreporter.write_line(f"{report.nodeid}: {found}")


@pytest.fixture(autouse=True)
def no_early_jvm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tests without Spark, let the command line start no JVM: nobody would use it, and nobody would end it."""
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setattr("mixedmode.driver.early.begin_jvm", lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def few_keys_are_read_from_columns() -> Iterator[None]:
    """Tests have few keys. Jobs on Spark run in processes of their own, and keep the bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "KEYS_WORTH_A_SEARCH", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def scratch_folder() -> Iterator[Path]:
    """The folder for temporary files of this process, of its Spark and of the jobs that it starts.

    Its name is short, so that Spark's workers use local sockets, as they do in production. Each JVM of these processes
    is one that starts fast.
    """
    parent = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()))
    with locked_folder(parent, "mm-") as folder, pytest.MonkeyPatch.context() as patch:
        tempfile.tempdir = None  # so that it looks at TMPDIR again
        patch.setenv("TMPDIR", str(folder))
        patch.setenv("SPARK_LOCAL_DIRS", str(folder))
        patch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
        yield folder
    tempfile.tempdir = None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a test, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def spark(scratch_folder: Path) -> Iterator["SparkSession"]:
    """The session that every test shares, since a process can have one only."""
    from mixedmode.job import Job, Sink, Source
    from mixedmode.spark.session import open_session
    from tests.harness import SPARK

    settings_of_spark = {**SPARK, **connector_settings()}
    job = Job("tests", sources={"t": Source.parquet(scratch_folder, bounded=True)}, spark=settings_of_spark)
    spec = job.sql("SELECT * FROM t").write(Sink.console()).spec
    session = open_session(spec, log_folder=scratch_folder)
    yield session
    session.stop()


def connector_settings() -> dict[str, str]:
    """Spark's Kafka connector for the session, where it can be had; tests that read Kafka skip where it cannot."""
    try:
        return {"jars": ",".join(map(str, [*kafka_connector(), *spark_avro()]))}
    except RetryableError:
        return {}


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The S3 server that every test shares."""
    with s3_server() as server:
        yield server
