"""`mixedmode run --serve`, `mixedmode serve` and `mixedmode monitoring`, as a shell calls them."""

import builtins
import json
import re
import threading
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from mixedmode.config import JobSpec
from mixedmode.driver.events import PhaseBegan
from mixedmode.driver.run import RunOptions
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job
from mixedmode.plan.keyed_operators import Where
from mixedmode.serve.address import CONTROL_TOKEN, READ_TOKEN
from tests.cli.shell import command, lines
from tests.cli.test_log_options import JOB
from tests.serve.test_folders import folder_of_story

READ = build_opener(ProxyHandler({}))  # without a proxy of the environment


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mixedmode.cli.app.require_environment", lambda _folders: None)
    for name in (READ_TOKEN, CONTROL_TOKEN):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "in").mkdir()
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("runtime-mode: batch", "runtime-mode: mixed, checkpointing: {dir: ./ckpt}"))
    return file


def url_in(text: str) -> str:
    (found,) = re.findall(r"http://[\d.]+:\d+/", text)
    return str(found)


def test_a_run_is_served_from_before_its_start_until_its_end(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    said: list[str] = []
    monkeypatch.setattr("mixedmode.cli.serve._say", said.append)

    def run(_spec: JobSpec, _where: Where, options: RunOptions) -> None:
        url = url_in(said[0])
        for observer in options.observers:
            observer(PhaseBegan("live"))
        found["job"] = json.loads(READ.open(f"{url}api/v1/job").read())
        stop = Request(f"{url}api/v1/stop", b"", {"X-Mixedmode-Control": "1"})
        found["stop"] = READ.open(stop).status
        assert options.stop is not None
        found["is_stopped"] = options.stop.is_set()

    monkeypatch.setattr("mixedmode.driver.run.run_job", run)
    assert command("run", job, "--serve", "0").exit_code == 0
    assert (found["job"]["name"], found["job"]["phase"]) == ("totals", "live")
    assert (found["stop"], found["is_stopped"]) == (202, True)
    with pytest.raises(OSError, match="refused"):
        READ.open(url_in(said[0]))


def test_an_address_that_others_reach_is_refused_before_the_job_starts(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixedmode.driver.run.run_job", lambda *_given: pytest.fail("it runs"))
    result = command("run", job, "--serve", "0.0.0.0:0")
    assert result.exit_code == 2
    assert "other machines can reach this address" in result.stderr
    assert command("run", job, "--serve", "here").exit_code == 2


def test_options_of_the_server_need_the_server(job: Path) -> None:
    for option in ("--cert", "--key", "--savepoints"):
        result = command("run", job, option, "x")
        assert result.exit_code == 2
        assert "--serve" in result.stderr


def test_without_the_extra_the_error_has_the_command_that_installs_it(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *given: Any) -> Any:
        if name.startswith("mixedmode.serve"):
            msg = "No module named 'starlette'"
            raise ModuleNotFoundError(msg, name="starlette")
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", missing)
    for result in (command("run", job, "--serve", "0"), command("serve", tmp_path)):
        assert result.exit_code == 2
        assert "the server needs packages that are not installed" in result.stderr
        assert "[serve]" in result.stderr
        assert "missing=starlette" in result.stderr


def test_folders_are_served_until_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, answers = threading.Event(), list[Any]()
    monkeypatch.setattr("mixedmode.cli.app.stop_on_signals", lambda *_text: stop)

    def ask(text: str) -> None:
        answers.append(json.loads(READ.open(f"{url_in(text)}api/v1/jobs").read()))
        stop.set()

    monkeypatch.setattr("mixedmode.cli.serve._say", ask)
    folders = [folder_of_story(tmp_path / "a"), folder_of_story(tmp_path / "b", name="totals")]
    assert command("serve", *folders, "--listen", "0").exit_code == 0
    assert answers == [{"jobs": ["orders", "totals"], "is_live": False}]


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    result = command("serve", tmp_path, "--listen", "0")
    assert result.exit_code == 2
    assert "this is not a checkpoint folder" in result.stderr


def test_the_dashboard_and_the_alerts_are_written_to_a_folder(tmp_path: Path) -> None:
    written = lines(command("monitoring", tmp_path / "new"))
    assert [Path(line).name for line in written] == ["grafana-dashboard.json", "prometheus-alerts.yaml"]
    assert json.loads(Path(written[0]).read_text())["title"] == "mixedmode"


def test_the_server_of_the_job_file_is_started_and_the_command_line_replaces_its_address(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(job.read_text() + "serve: {listen: 0, savepoints: ./kept}\n")
    said: list[str] = []

    def run(_spec: JobSpec, _where: Where, options: RunOptions) -> None:
        assert options.drain is not None
        said.append(str(len(options.observers)))

    monkeypatch.setattr("mixedmode.driver.run.run_job", run)
    for options in ([], ["--serve", "127.0.0.1:0"], ["--set", "serve.listen=0"]):
        result = command("run", job, "--log-level", "error", *options)
        assert result.exit_code == 0, result.output
        assert url_in(result.stderr).startswith("http://127.0.0.1:")
    assert said == ["2", "2", "2"]
    assert "needs a token" not in command("validate", job).stderr
    refused = command("run", job, "--set", "serve.listen=0.0.0.0:0")
    assert (refused.exit_code, "does not start without a token and TLS" in refused.stderr) == (2, True)


def test_a_run_in_python_has_the_server_of_the_job_or_of_the_call(
    job: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mixedmode.driver.run.run_job", lambda _spec, _where, _options: None)
    caplog.set_level("INFO", logger="mixedmode.serve")
    Job.from_file(job).run()
    assert caplog.messages == []
    Job.from_file(job).run(serve=0)
    job.write_text(job.read_text() + "serve.listen: 0\n")
    Job.from_file(job).run()
    assert [url_in(message)[:17] for message in caplog.messages] == ["http://127.0.0.1:"] * 2
    with pytest.raises(InvalidJobError, match=r"Job\.run: serve is not an address"):
        Job.from_file(job).run(serve="eighty")
