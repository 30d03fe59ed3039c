"""A crashed reader leaves no links to files of the state for longer than until the next reader."""

import threading
from pathlib import Path

import pytest

from mixedmode.checkpoint.private_folder import is_private
from mixedmode.queryable import folders
from mixedmode.queryable.folders import memory_folder, reader_folder


def test_a_folder_is_deleted_with_its_reader(tmp_path: Path) -> None:
    with reader_folder(tmp_path) as folder:
        (folder / "run").write_text("state")
    assert list(tmp_path.iterdir()) == []


def test_the_next_reader_removes_the_folder_of_a_crashed_one_and_no_other(tmp_path: Path) -> None:
    crashed = tmp_path / "reader-crashed"
    crashed.mkdir()
    (crashed / "lock").touch()
    (crashed / "run").write_text("state")
    with reader_folder(tmp_path) as living, reader_folder(tmp_path) as other:
        assert sorted(tmp_path.iterdir()) == sorted([living, other])


def test_a_folder_in_memory_is_private_or_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MEMORY", tmp_path)
    monkeypatch.setattr(folders, "_MEMORY_BYTES_MIN", 0)
    found = memory_folder()
    assert found is not None
    assert is_private(found)
    assert found.is_relative_to(tmp_path)
    found.parent.chmod(0o777)
    assert memory_folder() is None, "others can write to it"
    monkeypatch.setattr(folders, "_MEMORY", tmp_path / "absent")
    assert memory_folder() is None
    monkeypatch.setattr(folders, "_MEMORY", tmp_path)
    monkeypatch.setattr(folders, "_MEMORY_BYTES_MIN", 2**62)
    assert memory_folder() is None, "it has too little room"


def test_many_readers_at_once_keep_their_folders(tmp_path: Path) -> None:
    barrier, seen = threading.Barrier(8), list[bool]()

    def read() -> None:
        barrier.wait()
        with reader_folder(tmp_path) as folder:
            (folder / "run").write_text("state")
            barrier.wait()
            seen.append((folder / "run").exists())

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8
    assert list(tmp_path.iterdir()) == []
