"""A crashed reader leaves no links to files of the state for longer than until the next reader."""

import threading
from pathlib import Path

from mixedmode.queryable.folders import reader_folder


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
