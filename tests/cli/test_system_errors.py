"""Errors of the operating system in every command: one message in the same words, an exit code, and no stack trace."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from mixedmode.errors import RetryableError
from mixedmode.sort.runs import read_run, write_run
from mixedmode.spark.errors import errors_explained
from mixedmode.system_errors import system_error
from tests.cli.shell import command
from tests.harness import write_text

JOB = """\
name: shops
execution: {runtime-mode: mixed, checkpointing: {dir: ./checkpoints}}
sources: {sales: {format: json, path: in, schema: "k string, v long"}}
steps: [{key-by: [k], aggregate: {n: count(*)}}]
sink: {format: parquet, path: out}
"""
#: {command: (the function that it calls, its arguments)}
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("mixedmode.driver.run.open_session", ("run", "job.yaml")),
    "run, at the screen": ("mixedmode.driver.run.run_job", ("run", "job.yaml")),
    "validate": ("mixedmode.driver.planning.open_session", ("validate", "job.yaml")),
    "explain": ("mixedmode.driver.planning.open_session", ("explain", "job.yaml")),
    "rescale": ("mixedmode.driver.rescale_requests.ask_to_rescale", ("rescale", "job.yaml", "3")),
    "checkpoints": ("mixedmode.cli.checkpoints.checkpoint_report", ("checkpoints", "checkpoints")),
    "verify": ("mixedmode.cli.checkpoints.verification_report", ("checkpoints", "checkpoints", "--verify")),
    "table": ("mixedmode.cli.table.read_output", ("table", "out")),
    "files": ("mixedmode.cli.table.output_files", ("table", "out", "--files")),
    "compact": ("mixedmode.cli.compact.compaction_report", ("compact", "job.yaml")),
    "create": ("mixedmode.cli.savepoint_reports.create_report", ("savepoint", "create", "job.yaml", "kept")),
    "list": ("mixedmode.cli.savepoint_reports.list_report", ("savepoint", "list", "kept")),
    "inspect": ("mixedmode.checkpoint.savepoint.read_savepoint", ("savepoint", "inspect", "kept")),
    "restore": ("mixedmode.driver.restoring.read_savepoint", ("savepoint", "restore", "kept", "job.yaml")),
    "dispose": ("mixedmode.cli.savepoint_reports.dispose_report", ("savepoint", "dispose", "kept")),
}
#: {errno: the beginning of the message}
SAID = {
    errno.EMFILE: "this process may not open more files. Raise the limit (`ulimit -n 4096`), then start again",
    errno.ENFILE: "this process may not open more files. Raise the limit (`ulimit -n 4096`), then start again",
    errno.ENOSPC: "no space is left on the disk. Free space, or delete files if `df -i` shows that no inode is free; "
    "or move the folder to a larger disk, then start again",
    errno.EACCES: "permission was denied. Give this user read and write access, then start again",
    errno.EROFS: "the file system is read-only. Mount it for writing; if it was, the disk may be failing: see `dmesg`, "
    "then start again",
    errno.EDQUOT: "the quota of this user is used up, though the disk may have space. Delete files of this user, have ",
    errno.EFBIG: "a file would be larger than this process, or the file system, allows. Raise the limit (`ulimit -f ",
    errno.EIO: "a disk, or the server that has it, failed to read or write. Check both (see `dmesg`), or move the ",
    errno.ESTALE: "a disk, or the server that has it, failed to read or write. Check both (see `dmesg`), or move the ",
    errno.ECONNREFUSED: "a server does not take the connection, or ended it. Check that it runs and can be reached, ",
}


def raising(number: int) -> Callable[..., NoReturn]:
    def fail(*_arguments: object, **_named: object) -> NoReturn:
        raise OSError(number, os.strerror(number), "/data/file")

    return fail


#: each command and each error once; `make soak` has all pairs
PAIRS = [
    pytest.param(
        name,
        number,
        id=f"{name}-{errno.errorcode[number]}",
        marks=() if name == "run" or number == errno.ENOSPC else pytest.mark.soak,
    )
    for name in COMMANDS
    for number in SAID
]


@pytest.mark.parametrize(("name", "number"), PAIRS)
def test_an_error_of_the_system_is_one_message_of_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    function, arguments = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mixedmode.cli.app.require_environment", lambda _folders: None)
    monkeypatch.setattr("mixedmode.cli.checkpoints.checkpoint_report", lambda _folder, **_options: "checkpoints")
    monkeypatch.setattr(function, raising(number))
    write_text(tmp_path, "job.yaml", JOB)
    (tmp_path / "in").mkdir()
    result = command(*arguments)
    assert result.exit_code == RetryableError.exit_code, result.output
    first, *lines = result.stderr.splitlines()
    assert first == "error RetryableError"
    assert len(lines) == 1, lines
    assert lines[0].startswith(SAID[number]), lines
    assert f"cause={os.strerror(number)}, path=/data/file" in lines[0]


def test_an_error_of_the_system_is_one_message_in_a_python_program_too() -> None:
    told = pytest.raises(RetryableError, match=r"^this process may not open more files\. .*log=spark\.log$")
    with told, errors_explained("spark.log"):
        raising(errno.EMFILE)()


def test_both_paths_of_a_link_are_told() -> None:
    """One is a file that was only to be linked, and the other one is on the disk that is full."""
    found = system_error(OSError(errno.ENOSPC, "No space left on device", "/in/1.json", None, "/tmp/verify/1.json"))
    assert str(found).endswith("cause=No space left on device, path=/in/1.json, to=/tmp/verify/1.json")


def test_a_defect_keeps_its_stack_trace() -> None:
    assert system_error(FileNotFoundError(errno.ENOENT, "no such file", "x")) is None
    assert system_error(ValueError("Permission denied")) is None
    with pytest.raises(FileNotFoundError), errors_explained("spark.log"):
        raising(errno.ENOENT)()


def test_a_limit_of_open_files_is_not_told_as_a_full_disk_or_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", raising(errno.EMFILE))
    with pytest.raises(RetryableError, match=r"^this process may not open more files\."):
        write_run(tmp_path / "run", [], block_bytes=1)
    with pytest.raises(RetryableError, match=r"^this process may not open more files\."):
        list(read_run(tmp_path / "run"))
