"""Two drivers of one job at once: the newer one goes on, the older one is fenced and says so."""

from pathlib import Path

import pytest

from tests.faults.processes import running, wait_until
from tests.faults.waiting import WaitingJob
from tests.harness import manifests

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def test_the_older_of_two_drivers_is_fenced_and_says_so(scratch_folder: Path, tmp_path: Path) -> None:
    job = WaitingJob(tmp_path / "waiting")
    job.add("history")
    checkpoints = job.folder / "checkpoints"
    with running("run", job.file, "--until-idle") as older:
        job.wait_until_begun()
        with running("run", job.file, "--until-idle") as newer:
            wait_until((checkpoints / "generations" / "0000000002").exists, "the newer one takes over")
            job.let_go()
            code, output, errors = older.wait()
            assert code == 1, output
            assert "error FencedError\na newer start of this job has taken over" in errors
            assert "Traceback" not in errors
            code, output, errors = newer.wait()
            assert code == 0, errors
    assert [manifest.generation for manifest in manifests(checkpoints)] == [2]
    job.check()
