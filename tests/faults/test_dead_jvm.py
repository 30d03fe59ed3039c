"""Spark's JVM is killed under a run, at several moments: one message, 1, and the next start goes on."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.faults.jobs import FaultJob
from tests.faults.processes import SECONDS_MAX, Driver, running
from tests.harness import run

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def kill_jvm(driver: Driver) -> None:
    """Kill the JVM that the driver has started."""
    children = psutil.Process(driver.process.pid).children()
    (jvm,) = [child for child in children if "java" in child.name()]
    jvm.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("looking for existing input", marks=pytest.mark.soak),
        "epoch 0 (backlog, sorted strategy)",
        pytest.param("waiting for new records", marks=pytest.mark.soak),
    ],
)
def test_a_jvm_that_is_killed_is_one_message_and_the_next_start_goes_on(
    spark: SparkSession, scratch_folder: Path, tmp_path: Path, moment: str
) -> None:
    job = FaultJob(tmp_path / "a folder")
    job.add("history", 400)
    with running("run", job.file) as driver:
        driver.read_until(moment)
        kill_jvm(driver)
        code, _, errors = driver.wait()
    logs = job.checkpoints / "logs"
    lines = errors.splitlines()
    assert (code, lines[0]) == (1, "error RetryableError"), errors
    assert lines[1].startswith("Spark's JVM has ended: it was killed, or ran out of memory. ")
    assert lines[1].endswith(f"log={logs}/spark.log, output={logs}/spark.out")
    assert len(lines) == 2, "one message"

    run(job.job, spark)
    job.check()


@pytest.mark.soak
def test_a_program_whose_jvm_was_killed_runs_its_next_job_with_another_one(tmp_path: Path) -> None:
    """As a notebook. A process that is forked from it has no JVM of its own, and may not use that of its parent."""
    (tmp_path / "rows.json").write_text(json.dumps({"k": "a"}))
    (tmp_path / "program.py").write_text(_RUNS_AGAIN)
    found = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS_MAX,
        check=False,
    )
    assert found.stdout.splitlines() == [
        "1",
        "InvalidJobError: this process was forked from one that uses Spark already",
        "RetryableError: Spark's JVM has ended: it was killed",
        "1",
    ], found.stderr


_RUNS_AGAIN = """
import os
from mixedmode import Job, Sink, Source
from mixedmode.driver.events import EpochStarted
from pyspark import SparkContext

spark = {"master": "local[1]", "driver.memory": "1g", "ui.enabled": False}
job = Job("again", sources={"t": Source.json("rows.json", schema="k string")}, mode="batch", spark=spark)
job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet("out"))


def attempt(observers=()):
    try:
        print(job.run(observers=observers).records, flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).partition(',')[0]}", flush=True)


def kill(event):
    if isinstance(event, EpochStarted):
        process = SparkContext._gateway.proc
        process.kill()
        process.wait()


attempt()
if os.fork() == 0:
    attempt()
    os._exit(0)
os.wait()
attempt([kill])
attempt()
"""
