"""Rows between two steps that Spark loses and computes again: the epoch's stages run again, whole."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import RetryableError
from mixedmode.executor import epoch_run, held_blocks, map_stages
from mixedmode.executor.rows_between import may_compute_twice, rows_of
from mixedmode.tasks.reports import SubtaskReport
from tests.faults.jobs import TWO_STEPS, FaultJob
from tests.harness import manifests, run

pytestmark = pytest.mark.spark


class Losing:
    """In the place of `rows_of`: before rows are read, what Spark keeps of them is lost, for so many times."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.calls = 0

    def __call__(self, output: DataFrame, reports: list[SubtaskReport]) -> DataFrame:
        self.calls += 1
        if self.calls <= self.losses:
            output.unpersist(blocking=True)
        return rows_of(output, reports)


@pytest.fixture
def job(scratch_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultJob:
    """On a cluster, as far as the stages know."""
    for module in (epoch_run, map_stages):
        monkeypatch.setattr(module, "may_compute_twice", lambda _: True)
    monkeypatch.setattr(held_blocks, "is_one_process", lambda _: False)
    job = FaultJob(tmp_path / "a folder", TWO_STEPS)
    job.add("history", 1_000)
    return job


@pytest.mark.parametrize("losses", [0, 1])
def test_rows_that_were_computed_twice_have_the_stages_run_again(
    spark: SparkSession, job: FaultJob, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    losing = Losing(losses)
    monkeypatch.setattr(epoch_run, "rows_of", losing)
    run(job.job, spark)
    assert losing.calls == losses + 1
    assert len(manifests(job.checkpoints)) == 1
    job.check()


def test_rows_that_are_lost_every_time_are_an_error_that_a_start_repeats(
    spark: SparkSession, job: FaultJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = Losing(99)
    monkeypatch.setattr(epoch_run, "rows_of", losing)
    with pytest.raises(RetryableError, match="one step of the epoch emitted for the next were computed twice"):
        run(job.job, spark)
    assert losing.calls == 4
    assert not manifests(job.checkpoints)
    monkeypatch.undo()
    run(job.job, spark)
    job.check()


def test_a_local_master_keeps_what_it_keeps_once(spark: SparkSession) -> None:
    assert not may_compute_twice(spark)
