"""The log of a run of the command line, and of its tasks, on a real Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.jobs import FaultJob
from tests.faults.processes import finished

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def documents(text: str) -> list[dict[str, Any]]:
    """The lines of a text that are objects of JSON."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_driver_and_tasks_log_in_the_same_form_and_standard_output_stays_free(
    scratch_folder: Path, tmp_path: Path
) -> None:
    del scratch_folder
    job = FaultJob(tmp_path / "a folder")
    job.add("history", 400)
    options = ("--log-format", "json", "--log-level", "debug")
    code, output, errors = finished("run", job.file, "--until-idle", *options)
    assert (code, output) == (0, "")
    driver = documents(errors)
    assert len(driver) == len(errors.splitlines()), "nothing but log lines"
    assert {line["job"] for line in driver} == {"faults"}
    messages = [line["message"] for line in driver]
    assert (messages[0], messages[-1]) == ("starting Spark", "done")
    (committed,) = (line for line in driver if line["message"] == "epoch committed")
    assert (committed["epoch"], committed["kind"], committed["records"]) == (0, "backlog", 400)

    assert (job.checkpoints / "logs" / "spark.log").exists()
    tasks = documents((job.checkpoints / "logs" / "spark.out").read_text())
    done = [line for line in tasks if line["message"] == "subtask done"]
    assert sorted(line["subtask"] for line in done) == [0, 1]
    assert {line["logger"] for line in done} == {"mixedmode.tasks.subtask"}
    assert sum(line["pairs"] for line in done) == committed["pairs"]
