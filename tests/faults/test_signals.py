"""Ctrl-C and SIGTERM: the epoch under way is finished and committed, the exit code is 0, and a start resumes."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.faults.jobs import FaultJob
from tests.faults.processes import running, wait_until
from tests.harness import manifests, output_rows, run, write_json, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]

STOPPING = "stopping: finishing the epoch under way (again to stop at once)"

JOB = """\
name: waits
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints}}
parallelism: 2
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales: {format: json, path: in, schema: "shop string, price long"}
steps:
  - key-by: shop
    process: waiting:Waiting
    output: shop string
  - key-by: shop
    aggregate: {sales: count(*)}
sink: {format: parquet, path: ./out}
"""
CODE = """\
import threading
from pathlib import Path

from mixedmode.process import KeyedProcessFunction

HERE = Path(__file__).parent


class Waiting(KeyedProcessFunction):
    def open(self, context):
        (HERE / "begun").touch()
        while not (HERE / "go").exists():
            threading.Event().wait(0.01)

    def process_element(self, record, context):
        yield {"shop": record["shop"]}
"""


class WaitingJob:
    """A job whose subtasks say that they have begun, and go on when they are let."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shops = Counter[str]()
        write_text(folder, "job.yaml", JOB)
        write_text(folder, "waiting.py", CODE)

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    def add(self, name: str) -> None:
        rows = [{"shop": f"shop {number % 7}", "price": number} for number in range(50)]
        write_json(self.folder / "in", f"{name}.json", rows)
        self.shops.update(str(row["shop"]) for row in rows)

    def wait_until_begun(self) -> None:
        wait_until((self.folder / "begun").exists, "the backlog begins")

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def check(self) -> None:
        assert {row["shop"]: row["sales"] for row in output_rows(self.folder / "out")} == self.shops


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder")


@pytest.fixture
def waiting(scratch_folder: Path, tmp_path: Path) -> WaitingJob:
    job = WaitingJob(tmp_path / "waiting")
    job.add("history")
    return job


def test_sigterm_in_the_backlog_finishes_it(spark: SparkSession, waiting: WaitingJob) -> None:
    with running("run", waiting.file) as driver:
        waiting.wait_until_begun()
        driver.send(signal.SIGTERM)
        waiting.let_go()
        code, output, errors = driver.wait()
    assert (code, STOPPING in errors) == (0, True), errors
    assert "Traceback" not in errors
    assert [m.is_backlog for m in manifests(waiting.folder / "checkpoints")] == [True]
    assert output.count("backlog  epoch 0") == 1
    waiting.add("later")
    run(Job.from_yaml(waiting.file), spark)
    waiting.check()


def test_ctrl_c_in_live_commits_and_ends_with_a_summary(spark: SparkSession, job: FaultJob) -> None:
    job.add("history", 3_000)
    with running("run", job.file) as driver:
        driver.read_until("flip")
        job.add("live", 500)
        driver.read_until("epoch 1")
        driver.send(signal.SIGINT)
        code, output, errors = driver.wait()
    assert (code, STOPPING in errors) == (0, True), errors
    assert "Traceback" not in errors
    assert "KeyboardInterrupt" not in errors
    assert "last checkpoint 1" in output
    job.check()


def test_a_second_ctrl_c_stops_at_once_and_loses_nothing(spark: SparkSession, waiting: WaitingJob) -> None:
    with running("run", waiting.file) as driver:
        waiting.wait_until_begun()
        driver.send(signal.SIGINT)
        driver.send(signal.SIGTERM)
        code, _, errors = driver.wait()
    assert code == 130
    assert "stopped at once; the epoch under way is run again at the next start\n" in errors
    assert "Traceback" not in errors
    assert not manifests(waiting.folder / "checkpoints")
    waiting.let_go()
    run(Job.from_yaml(waiting.file), spark)
    waiting.check()
