"""The command that adds an extra, by how mixedmode was installed."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mixedmode.installed import command_for, install_command, python_command

ROOT = Path(__file__).parents[1]
COMMIT = "0123abcd"


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        (None, "py -m pip install 'mixedmode[postgres]'"),
        (
            {"url": "file:///src/mixed%20mode", "dir_info": {"editable": True}},
            "py -m pip install -e '/src/mixed mode[postgres]'",
        ),
        ({"url": "file:///src/mixedmode", "dir_info": {}}, "py -m pip install '/src/mixedmode[postgres]'"),
        (
            {"url": "file:///wheels/mixedmode-0.1-py3-none-any.whl", "archive_info": {}},
            "py -m pip install 'mixedmode[postgres] @ file:///wheels/mixedmode-0.1-py3-none-any.whl'",
        ),
        (
            {"url": "https://host/mixedmode.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"py -m pip install 'mixedmode[postgres] @ git+https://host/mixedmode.git@{COMMIT}'",
        ),
    ],
)
def test_the_command_names_what_was_installed(noted: dict[str, Any] | None, command: str) -> None:
    assert command_for("postgres", None if noted is None else json.dumps(noted), "py") == command


def test_a_program_that_runs_from_its_sources_names_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    command = install_command("postgres")
    assert " -m pip install -e " in command
    assert "[postgres]" in command


def test_a_python_that_does_not_know_its_own_file_has_a_command() -> None:
    assert python_command() == sys.executable
    asks = (
        "from mixedmode.cli.machine import gather_facts as facts; print(facts(import_packages=False).python_executable)"
    )
    # under this name, there is no Python on PATH; it finds mixedmode in the current folder
    done = subprocess.run(
        ["no-such-python", "-c", asks], executable=sys.executable, cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout == b"python3\n"
