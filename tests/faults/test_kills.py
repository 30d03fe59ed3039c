"""SIGKILL of the driver, as a power cut would, at every step between reading and publishing; then a start without it.

Only the run that dies needs a process of its own; the one after it is a start in this process, over the same folders.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from tests.faults.jobs import TWO_STEPS, FaultJob
from tests.faults.processes import killed_at
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]

#: point: how many checkpoints the killed run leaves of the epoch
POINTS: dict[CrashPoint, int] = {
    "sort": 0,
    "runs-stored": 0,
    "before-manifest": 0,
    "after-manifest": 1,
    "after-publish": 1,
}


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder", file_format="parquet")


@pytest.fixture
def two_steps(scratch_folder: Path, tmp_path: Path) -> FaultJob:
    return FaultJob(tmp_path / "a folder", TWO_STEPS)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_in_the_backlog_loses_and_doubles_nothing(spark: SparkSession, job: FaultJob, point: CrashPoint) -> None:
    job.add("history", 3_000)
    killed_at(job.file, point, 0)
    assert len(manifests(job.checkpoints)) == POINTS[point]
    job.add("later", 500)
    run(job.job, spark)
    assert [m.is_backlog for m in manifests(job.checkpoints)] == [True, False], "what came after the kill is live"
    job.check()


@pytest.mark.parametrize("point", ["sort", "before-manifest", "after-manifest"])
def test_a_kill_in_a_live_epoch_loses_and_doubles_nothing(
    spark: SparkSession, two_steps: FaultJob, point: CrashPoint
) -> None:
    job = two_steps
    job.add("history", 3_000)
    run(job.job, spark)
    job.add("live", 500)
    killed_at(job.file, point, 1)
    assert len(manifests(job.checkpoints)) == 1 + POINTS[point]
    job.add("later", 500)
    run(job.job, spark)
    assert [m.is_backlog for m in manifests(job.checkpoints)] == [True, False, False]
    job.check()


def test_three_kills_in_a_row_at_one_point(spark: SparkSession, job: FaultJob) -> None:
    job.add("history", 3_000)
    for _ in range(3):
        killed_at(job.file, "before-manifest", 0)
        assert not manifests(job.checkpoints)
    run(job.job, spark)
    assert [m.generation for m in manifests(job.checkpoints)] == [4]
    job.check()
