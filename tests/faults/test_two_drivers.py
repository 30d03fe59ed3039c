"""Two drivers of one job at once: the newer one goes on, the older one is fenced and says so."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.errors import FencedError
from mixedmode.job import Job
from tests.faults.processes import SECONDS_MAX, running, wait_until
from tests.faults.waiting import WaitingJob
from tests.harness import manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_the_older_of_two_drivers_is_fenced_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """The older one runs in this process, the newer one in a process of its own."""
    job = WaitingJob(tmp_path / "waiting")
    job.add("history")
    checkpoints = job.folder / "checkpoints"
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(run, Job.from_file(job.file), spark)
        job.wait_until_begun()
        with running("run", job.file, "--until-idle") as newer:
            wait_until((checkpoints / "generations" / "0000000002").exists, "the newer one takes over")
            job.let_go()
            with pytest.raises(FencedError, match=r"^a newer start of this job has taken over") as fenced:
                older.result(SECONDS_MAX)
            assert fenced.value.exit_code == 1
            code, _, errors = newer.wait()
            assert code == 0, errors
    assert [manifest.generation for manifest in manifests(checkpoints)] == [2]
    job.check()
