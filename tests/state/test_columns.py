"""Columns of runs beside RocksDB: they change how fast state is read, and never what is read."""

import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import RetryableError
from mixedmode.state.rocksdb import RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb import columns as columns_module
from mixedmode.state.rocksdb.columns import NONE, ColumnsFolder, ColumnsWriter, NewestRuns
from mixedmode.state.rocksdb.replica import columns_of
from tests.state.runs import Entries, fixed, laid_over, wanted_runs

ENOUGH = 1 << 20


BYTES = st.sampled_from([b"\x00", b"a", b"\x80", b"\xff"])


def keys(width: int) -> st.SearchStrategy[bytes]:
    return st.lists(BYTES, min_size=width, max_size=width).map(b"".join)


def runs(max_size: int = 12) -> st.SearchStrategy[dict[bytes, bytes | None]]:
    """Entries with keys of one length; it is not that of all runs. Values end in zeros, too; some keys are deleted."""
    value = st.none() | st.binary(min_size=1, max_size=3)
    return st.sampled_from([2, 3]).flatmap(lambda width: st.dictionaries(keys(width), value, max_size=max_size))


def write_columns(path: Path, entries: Entries, *, bytes_max: int = ENOUGH, at_a_time: int = 1000) -> Path | None:
    writer = ColumnsWriter(path, bytes_max=bytes_max)
    ordered = sorted(entries)
    for start in range(0, len(ordered), at_a_time):
        some = ordered[start : start + at_a_time]
        writer.write(some, [entries[key] for key in some])
    return writer.finish()


def keep(folder: ColumnsFolder, name: str, entries: Entries, scratch: Path) -> Path:
    """Columns of a run with these entries; gives their file."""
    before = set((scratch / "columns").glob("*"))
    written = write_columns(scratch / "new", entries)
    assert written is not None
    folder.keep(name, written)
    (kept,) = set((scratch / "columns").glob("*")) - before
    return kept


def keep_beside(replica: Path, name: str, entries: Entries) -> int:
    """Columns of a run with these entries, for the replica in a folder; gives their size."""
    written = write_columns(replica.with_name("new"), entries)
    assert written is not None
    size = written.stat().st_size
    columns_of(replica).keep(name, written)
    return size


def opened(folder: ColumnsFolder, names: Sequence[str], *, bytes_max: int = ENOUGH) -> NewestRuns:
    found, taken_bytes = folder.open([(0, name) for name in names], bytes_max=bytes_max)
    assert taken_bytes <= bytes_max
    return found.get(0, NONE)


@given(
    history=st.lists(runs(), min_size=1, max_size=4),
    missing=st.integers(-1, 3),
    wanted=st.lists(st.sets(keys(2) | keys(3), max_size=8), min_size=1, max_size=3),
    batch_entries=st.integers(1, 5),
)
def test_columns_and_the_rest_give_what_a_dictionary_gives(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[Entries],
    missing: int,
    wanted: list[set[bytes]],
    batch_entries: int,
) -> None:
    scratch = tmp_path_factory.mktemp("columns")
    folder, everything = ColumnsFolder(scratch / "columns"), laid_over(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BATCH_ENTRIES", batch_entries)
        for number, entries in enumerate(history):
            if number != missing and entries:
                keep(folder, str(number), entries, scratch)
    newest = opened(folder, [str(number) for number, entries in enumerate(history) if entries or number == missing])
    held = set[bytes]().union(*history[missing + 1 :])
    for some in [*wanted, set(everything), *map(set, history)]:
        ordered, asked = sorted(some), list[bytes]()

        def read_rest(rest: Sequence[bytes], asked: list[bytes] = asked) -> list[bytes | None]:
            asked += rest
            return [everything.get(key) for key in rest]

        assert list(newest.read(ordered, read_rest)) == [everything.get(key) for key in ordered]
        assert asked == sorted(set(asked)), "as any backend is asked"
        if len(set(map(len, ordered))) == 1:
            assert not set(asked) & held, "what columns hold is not asked for again"


@given(
    entries=st.dictionaries(keys(2), st.binary(min_size=3, max_size=3), min_size=1, max_size=9),
    cuts=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=3),
    batch_entries=st.integers(1, 5),
)
def test_entries_in_arrays_are_written_as_entries_in_lists(
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[bytes, bytes],
    cuts: list[tuple[int, bool]],
    batch_entries: int,
) -> None:
    """Pieces of a run, each with its keys and values in arrays or in lists."""
    scratch = tmp_path_factory.mktemp("arrays")
    ordered = sorted(entries)
    bounds = sorted({(0, True), (len(ordered), True), *((min(cut, len(ordered)), kind) for cut, kind in cuts)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BATCH_ENTRIES", batch_entries)
        writer = ColumnsWriter(scratch / "arrays", bytes_max=ENOUGH)
        for (start, is_array), (end, _) in pairwise(bounds):
            some = ordered[start:end]
            values = [entries[key] for key in some]
            writer.write(*((fixed(some, 2), fixed(values, 3)) if is_array else (some, values)))
        written = writer.finish()
    assert written is not None
    folder = ColumnsFolder(scratch / "columns")
    folder.keep("run", written)
    newest = opened(folder, ["run"])
    assert list(newest.read(ordered, lambda rest: [b"rest"] * len(rest))) == [entries[key] for key in ordered]
    assert list(newest.read(fixed(ordered, 2), lambda rest: [b"rest"] * len(rest))) == [entries[key] for key in ordered]


def test_a_key_of_another_length_in_an_array_ends_the_columns(tmp_path: Path) -> None:
    writer = ColumnsWriter(tmp_path / "run", bytes_max=ENOUGH)
    writer.write(fixed([b"ab"], 2), [b"1"])
    writer.write(fixed([b"abc"], 3), [b"2"])
    assert writer.finish() is None
    assert not (tmp_path / "run").exists()


def test_of_runs_that_all_have_columns_nothing_is_left_to_ask(tmp_path: Path) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    keep(folder, "old", {b"a\x00": b"1", b"b\x00": b"1"}, tmp_path)
    keep(folder, "new", {b"b\x00": None, b"c\x00": b"2\x00"}, tmp_path)
    newest = opened(folder, ["old", "new"])

    def nobody(rest: Sequence[bytes]) -> list[bytes | None]:
        pytest.fail(f"asked for {rest}")

    assert newest.is_all
    assert list(newest.read([b"a\x00", b"b\x00", b"c\x00", b"d\x00"], nobody)) == [b"1", None, b"2\x00", None]


def test_without_columns_everything_is_left_to_ask(tmp_path: Path) -> None:
    found, taken_bytes = ColumnsFolder(tmp_path / "columns").open([(0, "run"), (7, "other")], bytes_max=ENOUGH)
    assert found == {0: NONE, 7: NONE}
    assert taken_bytes == 0
    assert list(NONE.read([b"a", b"b"], lambda rest: [key + b"!" for key in rest])) == [b"a!", b"b!"]


def test_few_keys_are_left_to_rocksdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "KEYS_WORTH_A_SEARCH", 3)
    folder = ColumnsFolder(tmp_path / "columns")
    keep(folder, "run", {b"a": b"1", b"b": b"2", b"c": b"3"}, tmp_path)
    newest = opened(folder, ["without columns", "run"])
    assert list(newest.read([b"a", b"b"], lambda rest: [b"rest"] * len(rest))) == [b"rest", b"rest"]
    assert list(newest.read([b"a", b"b", b"c"], lambda rest: [b"rest"] * len(rest))) == [b"1", b"2", b"3"]
    everything = opened(folder, ["run"])
    assert list(everything.read([b"a", b"b"], lambda rest: [b"rest"] * len(rest))) == [b"1", b"2"], (
        "it need not be opened"
    )


def test_the_database_is_opened_once_columns_do_not_answer(tmp_path: Path) -> None:
    prefix = b"\x00\x01\x00"
    history: list[Entries] = [
        {prefix + b"%d" % row: None if row == run else b"run %d" % run for row in range(run, 9)} for run in range(3)
    ]
    wanted, replica_folder = wanted_runs(tmp_path, history), tmp_path / "r"
    every = [prefix + b"%d" % row for row in range(10)]
    with RunWriter(tmp_path / "w") as writer:
        for count in (1, 2, 3):
            keep_beside(replica_folder, f"run-{count - 1}", history[count - 1])
            expected = laid_over(history[:count])
            with open_replica(replica_folder, wanted[:count], attempt="a") as replica:
                found = list(RocksDBBackend(replica, writer, {0: 1e9}).read(0, every))
            assert found == [expected.get(key) for key in every]
            assert not (replica_folder / "db").exists(), "nobody has asked it for anything"
        with open_replica(replica_folder, wanted, attempt="a") as replica:
            rows = RocksDBBackend(replica, writer, {0: 1e9}).scan(0, every[0], every[-1])
        assert dict(zip(rows.keys, rows.values, strict=True)) == laid_over(history)
    shutil.rmtree(replica_folder)
    with open_replica(replica_folder, wanted, attempt="a"):
        assert (replica_folder / "db").exists(), "without columns, it is opened with the replica"


def test_a_disk_that_does_not_take_the_database_is_said_when_it_is_opened(tmp_path: Path) -> None:
    entries: Entries = {b"\x00\x01\x00a": b"1"}
    (wanted,) = wanted_runs(tmp_path, [entries])
    keep_beside(tmp_path / "r", "run-0", entries)
    (tmp_path / "r" / "db").write_text("in the place of a folder")
    with (
        RunWriter(tmp_path / "w") as writer,
        open_replica(tmp_path / "r", [wanted], attempt="a") as replica,
        pytest.raises(RetryableError, match=r"^the local copy of the state cannot be written to "),
    ):
        RocksDBBackend(replica, writer, {0: 1.0}).scan(0, b"\x00\x01\x00", b"\x00\x01\x01")


def test_a_state_has_its_own_runs(tmp_path: Path) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    for name in ("0-old", "0-new", "1-new"):
        keep(folder, name, {b"k": name.encode()}, tmp_path)
    found, _ = folder.open([(0, "0-old"), (1, "1-old"), (0, "0-new"), (1, "1-new")], bytes_max=ENOUGH)
    assert [(state_id, len(newest.runs), newest.is_all) for state_id, newest in found.items()] == [
        (0, 2, True),
        (1, 1, False),
    ]
    assert list(found[1].read([b"k"], lambda _: [b"older"])) == [b"1-new"]


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flipped", "torn", "empty", "gone", "swapped"])
def test_damaged_columns_are_as_if_they_were_not_there(tmp_path: Path, damage: str) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    entries: list[Entries] = [{b"%04d" % row: b"v%d" % number for row in range(500)} for number in range(3)]
    files = [keep(folder, str(number), entries[number], tmp_path) for number in range(3)]
    data = bytearray(files[1].read_bytes())
    match damage:
        case "flipped":
            data[len(data) // 2] ^= 1
            files[1].write_bytes(data)
        case "torn":
            os.truncate(files[1], len(data) // 2)
        case "empty":
            os.truncate(files[1], 0)
        case "gone":
            files[1].unlink()
        case "swapped":
            files[1].write_bytes(files[0].read_bytes())
    newest = opened(folder, ["0", "1", "2"])
    assert (len(newest.runs), newest.is_all) == (1, False), "nor those of older runs, which lie below it"
    assert list(newest.read([b"0000", b"9999"], lambda rest: [b"rest"] * len(rest))) == [b"v2", b"rest"]


def test_columns_that_go_while_they_are_open_are_read_to_the_end(tmp_path: Path) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    file = keep(folder, "run", {b"a": b"1"}, tmp_path)
    newest = opened(folder, ["run"])
    file.unlink()
    assert list(newest.read([b"a"], lambda _: [b"rest"])) == [b"1"]
    assert opened(folder, ["run"]) == NONE


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_the_newest_columns_are_used_as_far_as_memory_goes(tmp_path: Path) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    names = [str(number) for number in range(4)]
    sizes = [keep(folder, name, {b"k": name.encode()}, tmp_path).stat().st_size for name in names]
    assert len(set(sizes)) == 1
    for bytes_max, count in [(0, 0), (sizes[0] - 1, 0), (sizes[0], 1), (3 * sizes[0] + 1, 3), (4 * sizes[0], 4)]:
        newest = opened(folder, names, bytes_max=bytes_max)
        assert (len(newest.runs), newest.is_all) == (count, count == 4)
        assert list(newest.read([b"k"], lambda _: [b"rest"])) == [b"3" if count else b"rest"]


def test_columns_go_with_their_runs(tmp_path: Path) -> None:
    folder = ColumnsFolder(tmp_path / "columns")
    for name in ("merged-away", "of an attempt that failed", "kept"):
        keep(folder, name, {b"k": b"v"}, tmp_path)
    assert len(opened(folder, ["kept"]).runs) == 1
    assert len(list((tmp_path / "columns").iterdir())) == 1
    assert len(opened(folder, ["older", "kept"]).runs) == 1


@pytest.mark.parametrize("rows", [[b"a", b"b", b"cc"], [b"a", b"bb", b"c"], [b"", b"a"]])
@pytest.mark.parametrize("at_a_time", [1, 3])
def test_keys_of_several_lengths_have_no_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[bytes], at_a_time: int
) -> None:
    monkeypatch.setattr(columns_module, "_BATCH_ENTRIES", 1)
    assert write_columns(tmp_path / "new", dict.fromkeys(rows, b"v"), at_a_time=at_a_time) is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_too_large_has_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "_BATCH_ENTRIES", 100)
    entries: Entries = {b"%06d" % row: b"v" * 20 for row in range(1000)}
    assert write_columns(tmp_path / "new", entries, bytes_max=20_000, at_a_time=100) is None
    assert write_columns(tmp_path / "new", entries, bytes_max=0) is None
    assert write_columns(tmp_path / "new", {}) is None
    assert list(tmp_path.iterdir()) == []
    assert write_columns(tmp_path / "new", entries, bytes_max=60_000) == tmp_path / "new"


def test_a_writer_that_is_left_early_leaves_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "_BATCH_ENTRIES", 1)
    with RunWriter(tmp_path, columns_bytes=ENOUGH) as writer:
        writer.write(0, [b"a"], [b"1"])
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_does_not_take_columns_is_explained(tmp_path: Path) -> None:
    with RunWriter(tmp_path, columns_bytes=ENOUGH) as writer:
        writer.write(0, [b"a"], [b"1"])
        (tmp_path / "state-000.columns").mkdir()
        with pytest.raises(RetryableError, match=r"^the local disk does not take the new state.*entries_written=1$"):
            writer.finish()


# --- with RocksDB ----------------------------------------------------------------------------------------------------


def test_a_backend_asks_rocksdb_for_what_columns_do_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = b"\x00\x01\x00"
    history: list[Entries] = [
        {prefix + b"%04d" % row: b"old" for row in range(0, 3000, 2)},
        {prefix + b"%04d" % row: b"new" if row % 5 else None for row in range(0, 3000, 3)},
    ]
    wanted = wanted_runs(tmp_path, history)
    keep_beside(tmp_path / "r", "run-1", history[1])
    asked: list[bytes] = []
    read_rest = RocksDBBackend._read_rest

    def seen(backend: RocksDBBackend, state_id: int, rest: Sequence[bytes]) -> list[bytes | None]:
        asked.extend(rest)
        return read_rest(backend, state_id, rest)

    monkeypatch.setattr(RocksDBBackend, "_read_rest", seen)
    every = [prefix + b"%04d" % row for row in range(3100)]
    expected = laid_over(history)
    with RunWriter(tmp_path / "w") as writer, open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        assert list(RocksDBBackend(replica, writer, {0: 1e9}).read(0, every)) == [expected.get(key) for key in every]
    assert asked == [key for key in every if key not in history[1]]


def test_columns_take_their_memory_from_the_blocks(tmp_path: Path) -> None:
    entries: Entries = {b"\x00\x01\x00%04d" % row: b"v" * 30 for row in range(3000)}
    wanted, cache_bytes = wanted_runs(tmp_path, [entries]), 1 << 20
    with open_replica(tmp_path / "r", wanted, attempt="a", cache_bytes=cache_bytes) as replica:
        assert replica.database.property_int_value("rocksdb.block-cache-capacity") == cache_bytes
    size = keep_beside(tmp_path / "r", "run-0", entries)
    with open_replica(tmp_path / "r", wanted, attempt="a", cache_bytes=cache_bytes) as replica:
        assert replica.database.property_int_value("rocksdb.block-cache-capacity") == cache_bytes - size
    assert np.isclose(size, 3000 * (7 + 30 + 8 + 8), rtol=0.1), "what it takes is what it holds"
