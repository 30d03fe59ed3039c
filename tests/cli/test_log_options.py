"""`mixedmode run --log-format --log-level`: log lines on standard error, and nothing else."""

import json
import logging
from pathlib import Path

import pytest

from mixedmode.config import JobSpec
from mixedmode.driver.events import PhaseBegan
from mixedmode.driver.log_lines import LogLines
from mixedmode.driver.run import RunOptions
from mixedmode.errors import RetryableError
from mixedmode.log import FORMAT_VARIABLE, LEVEL_VARIABLE
from mixedmode.plan.keyed_operators import Where
from tests.cli.shell import command

JOB = """
name: totals
execution: {runtime-mode: batch}
sources: {sales: {format: json, path: ./in, schema: "shop string, price long"}}
steps: [{key-by: [shop], aggregate: {total: sum(price)}}]
sink: {format: console}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job whose run is two lines of the log, and then an error."""

    def run(spec: JobSpec, _where: Where, options: RunOptions) -> None:
        assert not options.observers, "the display is off"
        LogLines(spec.name)(PhaseBegan("starting"))
        logging.getLogger("mixedmode.driver").debug("a detail")
        msg = "the disk is full"
        raise RetryableError(msg)

    monkeypatch.setattr("mixedmode.driver.run.run_job", run)
    monkeypatch.setattr("mixedmode.cli.app.require_environment", lambda _folders: None)
    for name in (FORMAT_VARIABLE, LEVEL_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "in").mkdir()
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file


def test_lines_of_json_come_before_the_error_which_stays_what_it_is(job: Path) -> None:
    result = command("run", job, "--log-format", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    first, *error = result.stderr.splitlines()
    document = json.loads(first)
    assert (document["level"], document["message"], document["job"]) == ("INFO", "starting Spark", "totals")
    assert error == ["error RetryableError", "the disk is full"]


def test_a_level_alone_is_text_from_this_level_on(job: Path) -> None:
    said = command("run", job, "--log-level", "debug").stderr.splitlines()
    assert [line.partition(" UTC ")[2] for line in said[:2]] == [
        "INFO  mixedmode.run: starting Spark, job=totals",
        "DEBUG mixedmode.driver: a detail",
    ]
    assert command("run", job, "--log-level", "error").stderr.splitlines()[0] == "error RetryableError"


def test_variables_of_the_environment_are_the_defaults(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    assert json.loads(command("run", job).stderr.splitlines()[0])["logger"] == "mixedmode.run"


def test_an_unknown_level_is_refused(job: Path) -> None:
    result = command("run", job, "--log-level", "loud")
    assert result.exit_code == 2
    assert "'loud'" in result.stderr
