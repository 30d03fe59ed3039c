"""A scan of runs as arrays has the entries that RocksDB reads, and leaves to it what is not of one length."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rocksdict import SstFileWriter

from mixedmode.errors import RetryableError
from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb import RunWriter
from mixedmode.state.rocksdb import reader as reader_module
from mixedmode.state.rocksdb.manifest_file import run_path
from mixedmode.state.rocksdb.options import run_options
from mixedmode.state.rocksdb.reader import RunsReader

KEYS = 4000  # of each run: some ten blocks
Entries = dict[bytes, bytes | None]


def the_runs(kind: str, key_bytes: int) -> list[Entries]:
    """Runs that override each other, with keys in two key groups, of which the last bytes or all bytes differ."""
    chance = np.random.default_rng(1)
    runs = []
    for run in range(3):
        numbers = chance.integers(0, 2 * KEYS, KEYS)
        spread = 2 ** (8 * (key_bytes - 4)) // KEYS // 2 - 1 if kind == "all bytes differ" else 1
        entries: Entries = {}
        for number in numbers.tolist():
            key = bytes([0, 5 + number % 2, 0, 1]) + (number * spread).to_bytes(key_bytes - 4, "big")
            entries[key] = run.to_bytes(2, "big") + number.to_bytes(30, "little")
        some = sorted(entries)[KEYS // 4]
        if kind == "a deleted key":
            entries[some] = None
        if kind == "a longer value":
            entries[some] = bytes(100)
        if kind == "a longer key":
            entries[some + b"\x00"] = bytes(32)
        if kind == "values of another length in one run" and run == 1:
            entries = {key: bytes(8) for key in entries}
        runs.append(entries)
    return runs


def written(folder: Path, runs: list[Entries]) -> list[Path]:
    paths = []
    for number, entries in enumerate(runs):
        with RunWriter(folder / str(number)) as writer:
            keys = sorted(entries)
            writer.write(0, keys, [entries[key] for key in keys])
            paths += [run.path for run in writer.finish()]
    return paths


def copy(source: Path, target: Path) -> None:
    shutil.copy(source, target)


def opened(folder: Path, runs: list[Path]) -> RunsReader:
    return RunsReader(folder, [partial(copy, run) for run in runs], cache_bytes=0)


@pytest.mark.parametrize("key_bytes", [7, 12, 20])
@pytest.mark.parametrize(
    "kind",
    [
        "one length",
        "all bytes differ",
        "a deleted key",
        "a longer value",
        "a longer key",
        "values of another length in one run",
    ],
)
def test_a_scan_in_pieces_has_the_newest_entry_of_each_key(
    kind: str, key_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_BLOCKS_OF_PIECE", 3)
    runs = the_runs(kind, key_bytes)
    expected = {key: value for run in runs for key, value in run.items()}
    reader = opened(tmp_path / "reader", written(tmp_path, runs))
    ranges = [
        (b"\x00\x05\x00", b"\x00\x06\x00"),
        (b"\x00\x06\x00\x01\x00", b"\x00\x06\x00\x02"),
        (sorted(expected)[100], sorted(expected)[-100]),
        (sorted(expected)[100] + b"\x00", b"\x00\x06\x01"),
        (b"\x00\x01\x00", b"\x00\x02\x00"),
        (b"\x00\x07\x00", b"\x00\x08\x00"),
    ]
    for start, end in ranges:
        pieces = list(reader.scan_in_pieces(start, end))
        found = [pair for piece in pieces for pair in zip(piece.keys, piece.values, strict=True)]
        in_range = sorted((key, value) for key, value in expected.items() if start <= key < end)
        assert found == [(key, value) for key, value in in_range if value is not None]
        if len(found) > KEYS:
            assert len(pieces) > 3
    has_arrays = any(isinstance(piece.keys, FixedBytes) for piece in reader.scan_in_pieces(*ranges[0]))
    assert has_arrays
    misses = (
        1 if kind in ("one length", "all bytes differ") else reader_module._MISSES_MAX
    )  # a bound is longer than keys
    assert 1 <= reader._misses <= misses
    reader.close()


def scanned(reader: RunsReader) -> Entries | str:
    """Return the entries of all keys, or the text of the error."""
    try:
        pieces = list(reader.scan_in_pieces(b"\x00", b"\x01"))
    except RetryableError as error:
        return str(error)
    return {key: value for piece in pieces for key, value in zip(piece.keys, piece.values, strict=True)}


def test_damage_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    runs = the_runs("one length", 12)
    expected = {key: value for run in runs for key, value in run.items()}
    paths = written(tmp_path, runs)
    data, refused = paths[1].read_bytes(), 0
    for at in (0, len(data) // 3, len(data) // 2, *range(len(data) - 2000, len(data), 49)):
        reader = opened(tmp_path / f"at-{at}", paths)
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        run_path(tmp_path / f"at-{at}", 1).write_bytes(damaged)
        found = scanned(reader)
        assert found == expected or "--verify" in str(found), at  # no scan reads the properties, for example
        refused += isinstance(found, str)
        reader.close()
    assert refused >= 3, "damage in data blocks; RocksDB has read the index before"


def test_runs_of_another_writer_are_left_to_rocksdb(tmp_path: Path) -> None:
    ours, theirs = the_runs("one length", 12)[:2]
    (path,) = written(tmp_path, [ours])
    writer = SstFileWriter(run_options())
    writer.open(str(tmp_path / "theirs.sst"))
    for key in sorted(theirs):
        writer[key] = theirs[key]
    writer.finish()
    reader = opened(tmp_path / "reader", [path, tmp_path / "theirs.sst"])
    assert scanned(reader) == {**ours, **theirs}
    reader.close()
