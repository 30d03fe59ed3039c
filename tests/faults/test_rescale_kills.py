"""The driver dies in the first epoch after a rescale; then another start, over the same folders."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.in_process import dies_at
from tests.faults.jobs import FaultJob
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_a_death_right_after_a_rescale_loses_and_doubles_nothing_and_the_request_still_counts(
    spark: SparkSession, scratch_folder: Path, tmp_path: Path
) -> None:
    job = FaultJob(tmp_path / "a folder", file_format="parquet")
    job.add("history", 3_000)
    run(job.job, spark)
    job.job.rescale(3)
    job.add("live", 500)
    dies_at(job.job, spark, "before-manifest", 1)
    assert len(manifests(job.checkpoints)) == 1, "what 3 subtasks had stored is not committed"
    job.add("later", 500)
    run(job.job, spark, feed=[partial(more, job)])
    parallelism = [step.parallelism for manifest in manifests(job.checkpoints) for step in manifest.operators]
    assert parallelism == [2, 3, 3, 4]
    job.check()


def more(job: FaultJob) -> None:
    job.job.rescale(4)
    job.add("more", 500)
