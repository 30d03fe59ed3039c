"""Ctrl-C and SIGTERM: the epoch under way is finished and committed, the exit code is 0, and a start resumes."""

import re
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.faults.jobs import FaultJob
from tests.faults.processes import running
from tests.faults.waiting import WaitingJob
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]

STOPPING = "stopping: finishing the epoch under way (again to stop at once)"


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder")


@pytest.fixture
def waiting(scratch_folder: Path, tmp_path: Path) -> WaitingJob:
    job = WaitingJob(tmp_path / "waiting")
    job.add("history")
    return job


def test_sigterm_to_the_whole_group_in_the_backlog_finishes_it(spark: SparkSession, waiting: WaitingJob) -> None:
    with running("run", waiting.file) as driver:
        waiting.wait_until_begun()
        driver.send_to_group(signal.SIGTERM)
        waiting.let_go()
        code, output, errors = driver.wait()
    assert (code, STOPPING in errors) == (0, True), errors
    assert "Traceback" not in errors
    assert [m.is_backlog for m in manifests(waiting.folder / "checkpoints")] == [True]
    assert len(re.findall(r"^backlog  \S+ UTC  epoch 0 ", output, re.MULTILINE)) == 1
    waiting.add("later")
    run(Job.from_file(waiting.file), spark)
    waiting.check()


@pytest.mark.soak  # both signals have one handler, and an epoch that is stopped ends alike in the backlog and live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_in_live_commits_and_ends_with_a_summary(
    spark: SparkSession, job: FaultJob, number: signal.Signals
) -> None:
    job.add("history", 3_000)
    with running("run", job.file) as driver:
        driver.read_until("flip")
        job.add("live", 500)
        driver.read_until("epoch 1")
        driver.send_to_group(number)
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
    run(Job.from_file(waiting.file), spark)
    waiting.check()
