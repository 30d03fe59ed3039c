"""Two drivers of one job at once: the newer one goes on, the older one is fenced and says so.

The newer one is a run of the command line. So its log and that of its tasks are looked at, too, and it is in the locale
C, in which names of files are UTF-8 all the same.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
    job.add("日本 é")
    checkpoints = job.folder / "checkpoints"
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(run, Job.from_file(job.file), spark)
        job.wait_until_begun()
        arguments = ("--until-idle", "--log-format", "json", "--log-level", "debug")
        with running("run", job.file, *arguments, environment={"LC_ALL": "C"}) as newer:
            wait_until((checkpoints / "generations" / "0000000002").exists, "the newer one takes over")
            job.let_go()
            with pytest.raises(FencedError, match=r"^a newer start of this job has taken over") as fenced:
                older.result(SECONDS_MAX)
            assert fenced.value.exit_code == 1
            code, output, errors = newer.wait()
            assert (code, output) == (0, ""), errors
    assert [manifest.generation for manifest in manifests(checkpoints)] == [2]
    job.check()
    check_logs(errors, (checkpoints / "logs" / "spark.out").read_text())
    assert (checkpoints / "logs" / "spark.log").exists()


def check_logs(of_driver: str, of_spark: str) -> None:
    """The driver and the tasks log in the same form, and the driver writes nothing else."""
    driver = documents(of_driver)
    assert len(driver) == len(of_driver.splitlines()), "nothing but log lines"
    assert {line["job"] for line in driver} == {"waits"}
    messages = [line["message"] for line in driver]
    assert (messages[0], messages[-1]) == ("starting Spark", "done")
    (committed,) = (line for line in driver if line["message"] == "epoch committed")
    assert (committed["epoch"], committed["kind"], committed["records"]) == (0, "backlog", 50)

    done = [line for line in documents(of_spark) if line["message"] == "subtask done"]
    assert sorted(line["subtask"] for line in done) == [0, 0, 1, 1], "those of both keyed steps"
    assert {line["logger"] for line in done} == {"mixedmode.tasks.subtask"}
    assert sum(line["pairs"] for line in done) == committed["pairs"]


def documents(text: str) -> list[dict[str, Any]]:
    """Return the lines of a text that are objects of JSON."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
