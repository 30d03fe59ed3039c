"""A process deletes the temporary folders of killed processes, and none of a living one."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mixedmode.checkpoint.locked_folder import locked_folder, temporary_folder
from mixedmode.errors import RetryableError

HOLD = """
from mixedmode.checkpoint.locked_folder import temporary_folder
with temporary_folder("task-") as folder:
    (folder / "spilled").write_bytes(bytes(1000))
    print(folder, flush=True)
    input()
"""


def test_a_killed_process_leaves_its_folder_only_until_the_next_one(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    killed, living = (
        subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    )
    with killed, living:
        assert killed.stdout is not None
        assert living.stdout is not None
        left, kept = (Path(one.stdout.readline().strip()) for one in (killed, living) if one.stdout is not None)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "spilled").exists(), "nobody could remove it"
        subprocess.run(
            [sys.executable, "-c", HOLD], input="\n", stdout=subprocess.DEVNULL, text=True, env=environment, check=True
        )
        assert not left.exists()
        assert (kept / "spilled").exists()
        living.communicate("\n")
    assert not kept.exists()


def test_a_folder_is_deleted_with_all_that_is_in_it() -> None:
    with temporary_folder("test-") as folder:
        (folder / "in").mkdir()
        (folder / "in" / "file").touch()
    assert not folder.exists()


def test_a_folder_whose_process_ended_before_it_locked_it_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / "task-left"
    left.mkdir()
    with locked_folder(tmp_path, "task-") as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_a_process_whose_new_folder_is_taken_for_an_abandoned_one_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, list[str]()

    def make_and_lose(**options: Any) -> str:
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with locked_folder(tmp_path, "task-") as folder:
        assert [str(folder)] == made[1:]


@pytest.mark.parametrize("call", ["tempfile.mkdtemp", "pathlib.Path.open"])
def test_a_folder_that_the_system_does_not_make_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_arguments: object, **_named: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(call, fail)
    with pytest.raises(RetryableError) as told, locked_folder(tmp_path, "task-"):
        pass
    assert str(told.value) == (
        "a folder cannot be made: no space is left on the disk. Free space, or delete files if `df -i` shows that no "
        "inode is free; or move the folder to a larger disk, or set TMPDIR to another one, then start again. "
        f"cause=No space left on device, folder={tmp_path}"
    )
