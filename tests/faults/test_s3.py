"""Checkpoints and output on S3: killed on one machine and started on another, over a network that fails, and away.

Spark itself gets no access to the store. The server and the proxy run in this process; the job that is killed, in one
of its own, with temporary files of its own, so that the start after it has only the store and files of before.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.remote_objects import RETRY_SECONDS
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import RetryableError
from tests.differential.oracle import differences, keyed
from tests.faults.in_process import dies_at
from tests.faults.jobs import FaultJob
from tests.faults.processes import killed_at
from tests.faults.proxy import EVERY_FAULT, Fault, FaultProxy, Request, fault_proxy, seeded
from tests.harness import manifests, output_rows, run
from tests.s3 import S3Server, environment

pytestmark = [pytest.mark.spark, pytest.mark.faults]


class S3Job(FaultJob):
    """The job of all faults, with its folders in a bucket."""

    def move_to(self, bucket: str) -> None:
        self.checkpoint_url, self.out_url = f"{bucket}/check points", f"{bucket}/out"
        text = self.file.read_text().replace("dir: ./check points", f"dir: '{self.checkpoint_url}'")
        self.file.write_text(text.replace("path: ./out", f"path: '{self.out_url}'"))

    def check(self) -> None:
        """The answer is right, no file is published twice, and no run is missing."""
        assert not differences(self.answer(), keyed(output_rows(self.out_url), ["shop"]))
        committed = manifests(self.checkpoint_url)
        published = {path for path, _ in ObjectStore(self.out_url).list() if not path.startswith("_")}
        assert published == {file.final_path for manifest in committed for file in manifest.outputs}
        named = {run.path for manifest in committed for operator in manifest.operators for run in operator.runs}
        assert {path for path, _ in ObjectStore(self.checkpoint_url).list(paths.RUNS)} >= named


@pytest.fixture
def proxy(s3: S3Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """In front of the server, for this process, for the tasks of its Spark, and for what it starts."""
    with fault_proxy(s3.port) as proxy:
        for name, value in environment(proxy.url).items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
        yield proxy


@pytest.fixture
def job(scratch_folder: Path, s3: S3Server, tmp_path: Path) -> S3Job:
    job = S3Job(tmp_path / "a folder", file_format="parquet")
    job.move_to(s3.new_bucket())
    return job


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_job_goes_on_where_another_machine_died(
    spark: SparkSession, proxy: FaultProxy, job: S3Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """The random walk loses the files of a machine, too (tests/walk), so by default the driver dies in this process."""
    (tmp_path / "of the other machine").mkdir()
    job.add("history", 3_000)
    dies_at(job.job, spark, "before-manifest", 0)
    assert not manifests(job.checkpoint_url)
    job.add("later", 500)
    if is_killed:
        with monkeypatch.context() as other_machine:
            other_machine.setenv("TMPDIR", str(tmp_path / "of the other machine"))
            killed_at(job.file, "after-manifest", 1)
    else:
        dies_at(job.job, spark, "after-manifest", 1)
    assert [m.records_in for m in manifests(job.checkpoint_url)] == [3_000, 500], "epoch 0 kept its range"
    job.add("last", 500)
    run(job.job, spark)
    assert [m.is_backlog for m in manifests(job.checkpoint_url)] == [True, False, False]
    job.check()


@pytest.mark.soak
def test_a_job_gets_through_throttling_and_failures(spark: SparkSession, proxy: FaultProxy, job: S3Job) -> None:
    proxy.plan = seeded(1, share=0.25)
    job.add("history", 3_000)
    run(job.job, spark, feed=[partial(job.add, f"live {number}", 300) for number in range(3)])
    proxy.plan = working
    assert [m.is_backlog for m in manifests(job.checkpoint_url)] == [True, False, False, False]
    assert proxy.faults_met() == set(EVERY_FAULT)
    job.check()


def test_a_store_that_goes_away_stops_the_job_which_resumes(
    spark: SparkSession, proxy: FaultProxy, job: S3Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_away() -> None:
        job.add("live", 300)
        proxy.plan = away

    monkeypatch.setenv(RETRY_SECONDS, "0.5")
    job.add("history", 3_000)
    with pytest.raises(RetryableError, match="the store did not answer, though it was asked for up to") as caught:
        run(job.job, spark, feed=[go_away])
    assert "then start again; a job resumes." in str(caught.value)
    proxy.plan = working
    assert len(manifests(job.checkpoint_url)) == 1
    run(job.job, spark)
    job.check()


@pytest.mark.soak
def test_a_savepoint_in_a_store_is_restored_to_another_bucket(
    spark: SparkSession, proxy: FaultProxy, s3: S3Server, job: S3Job
) -> None:
    job.add("history", 3_000)
    run(job.job, spark, feed=[lambda: job.add("live", 300)])
    place, before = f"{s3.new_bucket()}/savepoint", job.checkpoint_url
    job.job.create_savepoint(place)
    job.file.write_text(job.file.read_text().replace(before, f"{s3.new_bucket()}/restored"))
    job.job.restore_savepoint(place)
    job.add("later", 300)
    run(job.job, spark)
    assert not differences(job.answer(), keyed(output_rows(job.out_url), ["shop"]))


def working(_: Request) -> Fault:
    return Fault.NONE


def away(_: Request) -> Fault:
    return Fault.CUT_BEFORE
