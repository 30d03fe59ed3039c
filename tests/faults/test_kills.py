"""The driver dies where test_kill_matrix.py does not come: files that map tasks read, and two keyed steps.

Only a run that is killed in a task needs a process of its own; all other starts are in this process.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from tests.faults.in_process import dies_at
from tests.faults.jobs import TWO_STEPS, FaultJob
from tests.faults.processes import killed_at
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder", file_format="parquet")


@pytest.fixture
def two_steps(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder", TWO_STEPS)


def test_a_kill_in_a_backlog_of_files_that_map_tasks_read(spark: SparkSession, job: FaultJob) -> None:
    job.add("history", 3_000)
    dies_at(job.job, spark, "before-manifest", 0)
    assert not manifests(job.checkpoints)
    job.add("later", 500)
    run(job.job, spark)
    assert [m.is_backlog for m in manifests(job.checkpoints)] == [True, False], "what came after the kill is live"
    job.check()


@pytest.mark.parametrize(("point", "committed"), [("sort", 1), ("after-manifest", 2)])
def test_a_kill_in_a_live_epoch_of_two_keyed_steps(
    spark: SparkSession, two_steps: FaultJob, point: CrashPoint, committed: int
) -> None:
    """`sort` is in a task, which kills the process of its driver."""
    job = two_steps
    job.add("history", 3_000)
    run(job.job, spark)
    job.add("live", 500)
    if point == "sort":
        killed_at(job.file, point, 1)
    else:
        dies_at(job.job, spark, point, 1)
    assert len(manifests(job.checkpoints)) == committed
    job.add("later", 500)
    run(job.job, spark)
    assert [m.is_backlog for m in manifests(job.checkpoints)] == [True, False, False]
    job.check()
