"""The private database of a reader: the newest entry of a key counts, in scans and in point reads."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from mixedmode.errors import RetryableError
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb import RunWriter
from mixedmode.state.rocksdb.manifest_file import run_path
from mixedmode.state.rocksdb.reader import RunsReader

PREFIX = b"\0\0\0"


def a_run(folder: Path, entries: dict[bytes, bytes | None]) -> Path:
    keys = sorted(entries)
    with RunWriter(folder) as writer:
        writer.write(0, [PREFIX + key for key in keys], [entries[key] for key in keys])
        (run,) = writer.finish()
        return Path(run.path)


def copy(source: Path, target: str) -> None:
    shutil.copy(source, target)


def link(source: Path, target: str) -> None:
    Path(target).hardlink_to(source)


def test_later_runs_override_earlier_ones_and_deleted_keys_do_not_exist(tmp_path: Path) -> None:
    older = a_run(tmp_path / "1", {b"a": b"1", b"b": b"1", b"c": b"1"})
    newer = a_run(tmp_path / "2", {b"b": b"2", b"c": None, b"d": b"2"})
    runs = [partial(link, older), partial(link, newer)]
    reader = RunsReader(tmp_path / "reader", runs, cache_bytes=0)
    expected = {b"a": b"1", b"b": b"2", b"d": b"2"}
    found = reader.scan(PREFIX, PREFIX + b"\xff")
    assert dict(zip(found.keys, found.values, strict=True)) == {PREFIX + key: value for key, value in expected.items()}
    keys = [PREFIX + key for key in (b"a", b"b", b"c", b"d", b"e")]
    assert reader.read(keys) == [b"1", b"2", None, b"2", None]
    assert reader.scan(PREFIX + b"b", PREFIX + b"\xff", limit=1).keys == [PREFIX + b"b"]
    reader.close()
    assert older.exists(), "the committed file is only linked"


@pytest.mark.parametrize("kind", ["one length", "keys of several lengths", "values of several lengths", "deleted"])
def test_many_entries_are_those_that_were_written_whatever_their_lengths(kind: str, tmp_path: Path) -> None:
    entries: dict[bytes, bytes | None] = {number.to_bytes(3, "big"): number.to_bytes(5, "big") for number in range(999)}
    if kind == "keys of several lengths":
        entries[b"\0"] = bytes(5)
    if kind == "values of several lengths":
        entries[bytes(3)] = b"1234567"
    if kind == "deleted":
        entries[bytes(3)] = None
    reader = RunsReader(tmp_path / "reader", [partial(copy, a_run(tmp_path / "1", entries))], cache_bytes=0)
    expected = [(PREFIX + key, value) for key, value in sorted(entries.items()) if value is not None]
    for limit in (None, 600):
        found = reader.scan(PREFIX, PREFIX + b"\xff", limit=limit)
        assert list(zip(found.keys, found.values, strict=True)) == expected[:limit]
    assert isinstance(found.keys, FixedBytes) == (kind in ("one length", "values of several lengths"))
    assert isinstance(found.values, FixedBytes) == (kind in ("one length", "keys of several lengths"))
    reader.close()


def test_a_scan_over_a_damaged_block_fails_instead_of_ending_early(tmp_path: Path) -> None:
    run = a_run(tmp_path / "1", {number.to_bytes(4, "big"): number.to_bytes(40, "big") for number in range(9000)})
    reader = RunsReader(tmp_path / "reader", [partial(copy, run)], cache_bytes=0)
    assert len(reader.scan(PREFIX, PREFIX + b"\xff").keys) == 9000
    stored = run_path(tmp_path / "reader", 0)
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 1
    stored.write_bytes(data)
    for limit in (None, 100_000):
        with pytest.raises(RetryableError, match="--verify"):
            reader.scan(PREFIX, PREFIX + b"\xff", limit=limit)
    assert len(reader.scan(PREFIX, PREFIX + b"\xff", limit=10).keys) == 10, "before the damage"
    reader.close()


def test_a_damaged_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = a_run(tmp_path / "1", {b"a": b"1"})
    run.write_bytes(run.read_bytes()[:-20])
    with pytest.raises(RetryableError, match="--verify"):
        RunsReader(tmp_path / "reader", [partial(link, run)], cache_bytes=0)
