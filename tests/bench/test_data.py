"""The data of workloads: written once, never half there, not by two at once."""

import multiprocessing
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from mixedmode.errors import RetryableError
from mixedmode_bench.data import data_for, default_root
from mixedmode_bench.workload import Size
from tests.bench.toys import TINY, write_events


def write_feed(folder: Path, size: Size) -> list[Path]:
    files = [folder / name for name in ("b.parquet", "a.parquet")]
    for file in files:
        file.write_bytes(bytes(size.events))
    return files


def test_data_are_written_once_for_a_size_and_a_version(tmp_path: Path) -> None:
    first = data_for(TINY, TINY.size, tmp_path)
    again = data_for(TINY, TINY.size, tmp_path)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.tables == again.tables
    assert first.input_bytes == sum(file.stat().st_size for file in first.tables.rglob("*.parquet")) > 0
    others = [data_for(TINY, Size(50, 3), tmp_path), data_for(replace(TINY, version=2), TINY.size, tmp_path)]
    assert all(other.is_new for other in others)
    assert len({data.tables for data in (first, *others)}) == 3


def test_workloads_may_share_their_data(tmp_path: Path) -> None:
    first, second = (replace(TINY, name=name, data="shared") for name in ("one", "two"))
    data = data_for(first, TINY.size, tmp_path)
    again = data_for(second, TINY.size, tmp_path)
    assert (data.is_new, again.is_new, again.tables) == (True, False, data.tables)


def test_a_feed_stays_in_its_order_and_away_from_the_tables(tmp_path: Path) -> None:
    fed = replace(TINY, feed=write_feed)
    data_for(fed, fed.size, tmp_path)
    data = data_for(fed, fed.size, tmp_path)
    assert [file.name for file in data.waiting] == ["b.parquet", "a.parquet"]
    assert all(file.stat().st_size == 100 for file in data.waiting)
    assert [path.name for path in data.tables.iterdir()] == ["events"]


def test_what_was_stopped_halfway_is_written_anew(tmp_path: Path) -> None:
    def stopped(folder: Path, size: Size) -> None:
        write_events(folder, size)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data_for(replace(TINY, write=stopped), TINY.size, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-100-7-v1.lock"]
    (tmp_path / ".tiny-100-7-v1.half" / "tables" / "events").mkdir(parents=True)  # of a process that was killed
    data = data_for(TINY, TINY.size, tmp_path)
    assert data.is_new
    assert len(list((data.tables / "events").iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RetryableError, match=r"cannot be written: .*another folder with --data.*workload=tiny"):
        data_for(TINY, TINY.size, tmp_path / "file")


def test_the_default_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXEDMODE_CACHE", str(tmp_path))
    assert default_root() == tmp_path / "bench"


def _write_slowly(root: Path, is_writing: Event, may_go_on: Event) -> None:
    def write(folder: Path, size: Size) -> None:
        is_writing.set()
        assert may_go_on.wait(30)
        write_events(folder, size)

    data_for(replace(TINY, write=write), TINY.size, root)


def test_a_second_one_waits_for_the_first_and_takes_its_data(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    is_writing, may_go_on = context.Event(), context.Event()
    first = context.Process(target=_write_slowly, args=(tmp_path, is_writing, may_go_on))
    first.start()
    assert is_writing.wait(30)
    may_go_on.set()
    assert not data_for(TINY, TINY.size, tmp_path).is_new
    first.join()
    assert first.exitcode == 0
