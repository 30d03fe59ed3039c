"""A path that cannot be the folder of a command is one message that names it, and no stack trace.

Each command that makes a folder gets each kind of wrong path, and so does each command that reads one.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from mixedmode.checkpoint.types import JobIdentity
from mixedmode.errors import RetryableError
from mixedmode.serve.monitoring import write_monitoring_files
from tests.checkpoint.committed import Checkpoints
from tests.cli.shell import command
from tests.cli.test_system_errors import JOB

OF_JOB = ("job.yaml", "--set", "execution.checkpointing.dir=PATH")
MAKING: Mapping[str, tuple[str, ...]] = {
    "monitoring": ("monitoring", "PATH"),
    "savepoint create": ("savepoint", "create", "job.yaml", "PATH"),
    "stop": ("stop", "job.yaml", "--savepoint", "PATH"),
    "run": ("run", *OF_JOB),
    "start": ("start", *OF_JOB),
    "demo": ("demo", "--directory", "PATH"),
}
READING: Mapping[str, tuple[str, ...]] = {
    "savepoint create": ("savepoint", "create", "PATH", "kept"),
    "savepoint list": ("savepoint", "list", "PATH"),
    "savepoint inspect": ("savepoint", "inspect", "PATH"),
    "savepoint restore": ("savepoint", "restore", "PATH", "job.yaml"),
    "savepoint dispose": ("savepoint", "dispose", "PATH"),
    "checkpoints": ("checkpoints", "PATH"),
    "table": ("table", "PATH"),
    "table --files": ("table", "PATH", "--files"),
    "state": ("state", "PATH"),
    "serve": ("serve", "PATH", "--listen", "0"),
    "serve --cert": ("serve", "checkpoints", "--listen", "0", "--cert", "PATH", "--key", "PATH"),
    "pause": ("pause", *OF_JOB),
    "rescale": ("rescale", "job.yaml", "2", "--set", "execution.checkpointing.dir=PATH"),
    "verify": ("verify", *OF_JOB),
    "compact": ("compact", "job.yaml", "--set", "sink.path=PATH"),
    "validate": ("validate", "PATH"),
    "deploy": ("deploy", "systemd", "PATH"),
}
ALWAYS_WRONG = ["a-file", "a-file/below", "circle", "n" * 300]
#: no folder can be made there, and there is none
NOT_MADE = ["nowhere", "/proc/x", "/proc/x/below"]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with a checkpoint, whose runs end where they would start Spark."""

    def fail(*_arguments: object, **_named: object) -> NoReturn:
        raise AssertionError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in ("app", "doctor"):
        monkeypatch.setattr(f"mixedmode.cli.{module}.require_environment", lambda _folders: None)
    monkeypatch.setattr("mixedmode.driver.early.begin_spark", lambda _spec, **_named: None)
    monkeypatch.setattr("mixedmode.driver.run.open_session", fail)
    monkeypatch.setattr("mixedmode.cli.background.subprocess.Popen", fail)
    Path("job.yaml").write_text(JOB)
    Path("in").mkdir()
    Path("a-file").write_text("x")
    Path("circle").symlink_to("circle")
    Path("nowhere").symlink_to("no/such/folder")
    Checkpoints(Path("checkpoints"), JobIdentity("shops", 128, {"aggregate-1": {"keys": ["k"]}})).commit(0)


def check(arguments: tuple[str, ...], path: str) -> None:
    result = command(*(argument.replace("PATH", path) for argument in arguments))
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in {1, 2}
    kind, message = result.stderr.splitlines()
    assert kind.startswith("error ")
    assert path in message


@pytest.mark.parametrize("path", ALWAYS_WRONG + NOT_MADE)
@pytest.mark.parametrize("name", MAKING)
def test_a_folder_that_cannot_be_made_is_one_message(name: str, path: str) -> None:
    check(MAKING[name], path)


@pytest.mark.parametrize("path", ALWAYS_WRONG)
@pytest.mark.parametrize("name", READING)
def test_a_folder_that_cannot_be_read_is_one_message(name: str, path: str) -> None:
    check(READING[name], path)


@pytest.mark.parametrize("path", ["a-file", "a-file/below", "circle", "/proc/x"])
def test_without_a_folder_for_states_the_list_is_empty(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", path)
    assert command("list").stdout.startswith("no job was started")


def test_a_full_disk_leaves_the_files_of_monitoring_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_up(path: Path, text: str, **_options: object) -> NoReturn:
        with path.open("w") as file:
            file.write(text[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (first, *_) = write_monitoring_files(Path("files"))
    before = {path.name: path.read_bytes() for path in Path("files").iterdir()}
    monkeypatch.setattr(Path, "write_text", fill_up)
    result = command("monitoring", "files")
    assert result.exit_code == RetryableError.exit_code
    assert result.stderr.strip().endswith(f"path={first}")
    assert {path.name: path.read_bytes() for path in Path("files").iterdir()} == before


def test_a_folder_in_place_of_a_file_of_monitoring_is_one_message() -> None:
    Path("files", "grafana-dashboard.json").mkdir(parents=True)
    check(("monitoring", "PATH"), "files")


def test_a_name_that_is_no_text_is_printed_with_escapes() -> None:
    assert "folder\\udcff/grafana-dashboard.json" in command("monitoring", "folder\udcff").stdout
    assert Path("folder\udcff").is_dir()
