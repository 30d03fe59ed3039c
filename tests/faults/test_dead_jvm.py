"""Spark's JVM is killed under a run, at several moments: one message, 1, and the next start goes on."""

import signal
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.faults.jobs import FaultJob
from tests.faults.processes import Driver, running
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
