"""The private database of a reader: the newest entry of a key counts, in scans and in point reads."""

from functools import partial
from pathlib import Path

import pytest

from mixedmode.errors import RetryableError
from mixedmode.state.rocksdb import RunWriter
from mixedmode.state.rocksdb.reader import RunsReader

PREFIX = b"\0\0\0"


def a_run(folder: Path, entries: dict[bytes, bytes | None]) -> Path:
    keys = sorted(entries)
    with RunWriter(folder) as writer:
        writer.write(0, [PREFIX + key for key in keys], [entries[key] for key in keys])
        (run,) = writer.finish()
        return Path(run.path)


def link(source: Path, target: Path) -> None:
    target.hardlink_to(source)


def test_later_runs_override_earlier_ones_and_deleted_keys_do_not_exist(tmp_path: Path) -> None:
    older = a_run(tmp_path / "1", {b"a": b"1", b"b": b"1", b"c": b"1"})
    newer = a_run(tmp_path / "2", {b"b": b"2", b"c": None, b"d": b"2"})
    reader = RunsReader(tmp_path / "reader", [partial(link, older), partial(link, newer)], cache_bytes=0)
    expected = {b"a": b"1", b"b": b"2", b"d": b"2"}
    found = reader.scan(PREFIX, PREFIX + b"\xff")
    assert dict(zip(found.keys, found.values, strict=True)) == {PREFIX + key: value for key, value in expected.items()}
    keys = [PREFIX + key for key in (b"a", b"b", b"c", b"d", b"e")]
    assert reader.read(keys) == [b"1", b"2", None, b"2", None]
    assert reader.scan(PREFIX + b"b", PREFIX + b"\xff", limit=1).keys == [PREFIX + b"b"]
    reader.close()
    assert older.exists(), "the committed file is only linked"


def test_a_damaged_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = a_run(tmp_path / "1", {b"a": b"1"})
    run.write_bytes(run.read_bytes()[:-20])
    with pytest.raises(RetryableError, match="--verify"):
        RunsReader(tmp_path / "reader", [partial(link, run)], cache_bytes=0)
