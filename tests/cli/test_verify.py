"""`mixedmode verify` says with its exit code whether the table agrees."""

from pathlib import Path

import pytest

from mixedmode import Job, Sink, Source
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.types import JobIdentity, Lease
from mixedmode.cli.app import app
from mixedmode.config.graph import MAIN
from mixedmode.driver.comparison import Difference, Differences
from mixedmode.driver.verification import Verified
from mixedmode.errors import RetryableError
from tests.checkpoint.committed import Checkpoints
from tests.cli.shell import command

ONE = Difference({"k": "a"}, "unexpected", None, {"k": "a", "n": 1})


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mixedmode.cli.app.require_environment", lambda _folders: None)
    source = Source.json(tmp_path / "in", schema="k string")
    job = Job("j", sources={"t": source}, checkpoint_dir=tmp_path / "c").key_by("k").aggregate(n="count(*)")
    path = tmp_path / "job.yaml"
    path.write_text(job.write(Sink.json(tmp_path / "out")).to_yaml())
    return path


@pytest.mark.parametrize(("unexpected", "code", "said"), [(0, 0, "agrees"), (1, 1, "k=a: only in the table: n=1")])
def test_a_difference_ends_the_command_with_1(
    job_file: Path, monkeypatch: pytest.MonkeyPatch, unexpected: int, code: int, said: str
) -> None:
    found = Differences(3, 0, unexpected, 0, (ONE,) * unexpected)
    monkeypatch.setattr(
        "mixedmode.driver.verification.verify_job", lambda _job, **_named: Verified(4, 2, {MAIN: found})
    )
    result = command("verify", job_file)
    assert (result.exit_code, said in result.output) == (code, True)


def test_a_job_that_cannot_be_replayed_is_refused(job_file: Path) -> None:
    text = job_file.read_text()
    job_file.write_text(text[: text.index("sink:")] + "sink: {format: console}\n")
    result = command("verify", job_file)
    assert (result.exit_code, "it has no output in a folder of files" in result.output) == (2, True)


@pytest.mark.parametrize("name", ["state", "verify"])
def test_a_command_that_cannot_take_a_lease_names_an_option_that_it_has(
    job_file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_arguments: object, **_named: object) -> Lease:
        raise RetryableError

    folder = job_file.parent / "c"
    Checkpoints(folder, JobIdentity("j", 128, {"aggregate-1": {"keys": ["k"]}})).commit(0)
    monkeypatch.setattr(Leases, "take", refuse)
    arguments = (name, job_file if name == "verify" else folder)
    refused = command(*arguments)
    assert (refused.exit_code, "(--no-lease)" in refused.stderr) == (1, True)
    assert "lease" not in command(*arguments, "--no-lease").stderr


def test_the_command_is_known() -> None:
    assert "verify" in {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
