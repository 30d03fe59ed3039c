"""Reading state from RocksDB: by points or by scan, both give what a dictionary gives."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from mixedmode.errors import RetryableError
from mixedmode.state import StateRange
from mixedmode.state.memory import MemoryBackend
from mixedmode.state.rocksdb import RocksDBBackend, RunWriter, open_replica
from mixedmode.state.rocksdb.backend import ENTRIES_SCANNED_PER_POINT_READ, KEYS_PER_CALL, ReadPlan, decide_read
from tests.random_cases import random_cases
from tests.state.runs import Entries, keys_of_groups, laid_over, run_entries, wanted_runs

FEW, MANY = (
    {0: 0.0, 5: 0.0},
    {0: 1e9, 5: 1e9},
)  # entries per key group: as few make it scan, as many make it read points


@settings(max_examples=random_cases(15))
@given(
    runs=st.lists(run_entries(12), max_size=4),
    others=st.lists(st.sets(keys_of_groups(), max_size=6), min_size=1, max_size=3),
    neighbours=run_entries(4),
)
def test_point_reads_and_range_scans_give_what_a_dictionary_gives(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], others: list[set[bytes]], neighbours: Entries
) -> None:
    folder = tmp_path_factory.mktemp("backend")
    expected = laid_over(runs)
    # the operator's other states have their entries between those of state 0
    beside = {key[:2] + bytes([other]) + key[3:]: b"!" for key in neighbours for other in (1, 5, 255)}
    wanted = wanted_runs(folder, [*runs, beside])
    with RunWriter(folder / "new") as writer, open_replica(folder / "r", wanted, attempt="a") as replica:
        by_points = RocksDBBackend(replica, writer, MANY)
        by_scan = RocksDBBackend(replica, writer, FEW)
        for some in [*others, set(expected), {b"\x00\x00\x00", *expected}]:
            keys = sorted(some)
            assert by_points.read(0, keys) == [expected.get(key) for key in keys]
            assert by_scan.read(0, keys) == [expected.get(key) for key in keys]
        for state_id in (5, 255):
            keys = sorted(key for key in beside if key[2] == state_id)
            assert by_points.read(state_id, keys) == by_scan.read(state_id, keys) == [b"!"] * len(keys)


@pytest.mark.parametrize("count", [1, KEYS_PER_CALL - 1, KEYS_PER_CALL, KEYS_PER_CALL + 1, 3 * KEYS_PER_CALL])
def test_point_reads_of_many_keys_keep_their_order(tmp_path: Path, count: int) -> None:
    keys = [b"\x00\x00\x00" + number.to_bytes(2, "big") for number in range(count)]
    stored = {key: str(number).encode() for number, key in enumerate(keys) if number % 3 != 1}
    wanted = wanted_runs(tmp_path, [stored])
    with RunWriter(tmp_path / "new") as writer, open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        assert RocksDBBackend(replica, writer, MANY).read(0, keys) == [stored.get(key) for key in keys]


@settings(max_examples=random_cases(10))
@given(runs=st.lists(run_entries(12), max_size=4), bounds=st.tuples(keys_of_groups(1), keys_of_groups(1)))
def test_a_scan_gives_the_committed_entries_of_the_range_in_order(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], bounds: tuple[bytes, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("scan")
    start, end = bounds
    expected = [(key, value) for key, value in laid_over(runs).items() if start <= key < end]
    with RunWriter(folder / "new") as writer, open_replica(folder / "r", wanted_runs(folder, runs), attempt="a") as r:
        found = RocksDBBackend(r, writer, {}).scan(0, start, end)
    assert list(zip(found.keys, found.values, strict=True)) == expected


@settings(max_examples=random_cases(15))
@given(
    runs=st.lists(run_entries(12), max_size=4),
    bounds=st.sets(keys_of_groups(), max_size=10),
    entries_max=st.integers(1, 8),
)
def test_many_ranges_hold_what_one_scan_of_each_finds(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], bounds: set[bytes], entries_max: int
) -> None:
    folder = tmp_path_factory.mktemp("ranges")
    ranges = [(start, end) for start, end in pairwise(sorted(bounds)) if start[:3] == end[:3]]
    live = laid_over(runs)
    with RunWriter(folder / "new") as writer, open_replica(folder / "r", wanted_runs(folder, runs), attempt="a") as r:
        for backend in (RocksDBBackend(r, writer, {}), MemoryBackend(SortedDict(live))):
            left, found = ranges, list[tuple[bytes, bytes]]()
            while left:
                part, count = backend.scan_ranges(0, left, entries_max)
                assert len(part.keys) >= entries_max or count == len(left)
                found += zip(part.keys, part.values, strict=True)
                left = left[count:]
            assert found == [(key, live[key]) for start, end in ranges for key in live if start <= key < end]
            assert backend.scan_ranges(0, [], entries_max) == (StateRange([], []), 0)


@pytest.mark.parametrize("step", [1, 2, 4, 5, 6, 7, 50, 499])
def test_prefixes_near_and_far_from_each_other_are_found(tmp_path: Path, step: int) -> None:
    stored = {
        bytes([0, group, state_id, number, row]): bytes([row + 1])
        for group in range(2)
        for state_id in (0, 1, 255)
        for number in range(250)
        for row in range(number % 4)
    }
    deleted: Entries = dict.fromkeys(sorted(stored)[::7])
    runs: list[Entries] = [stored, deleted]
    expected = laid_over(runs)
    with (
        RunWriter(tmp_path / "new") as writer,
        open_replica(tmp_path / "r", wanted_runs(tmp_path, runs), attempt="a") as r,
    ):
        backend = RocksDBBackend(r, writer, {})
        for state_id in (0, 1, 255):
            every = [bytes([0, group, state_id, number]) for group in range(2) for number in range(250)]
            prefixes = every[step // 2 :: step]
            found = backend.scan_prefixes(state_id, prefixes)
            rows = [(number, key) for number, prefix in enumerate(prefixes) for key in expected if key[:4] == prefix]
            assert list(zip(found.prefix_of_row.tolist(), found.keys, strict=True)) == rows
            assert found.values == [expected[key] for _, key in rows]


def test_what_is_written_is_read_in_the_next_epoch_and_not_in_this_one(tmp_path: Path) -> None:
    runs: list[Entries] = [{b"\x00\x00\x00a": b"1", b"\x00\x00\x00b": b"1"}]
    wanted = wanted_runs(tmp_path, runs)
    keys = [b"\x00\x00\x00a", b"\x00\x00\x00c"]
    with RunWriter(tmp_path / "new") as writer, open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        backend = RocksDBBackend(replica, writer, {})
        backend.write(0, keys, [None, b"2"])
        assert backend.read(0, keys) == [b"1", None], "an epoch reads what was committed before it"
        (run,) = writer.finish()
    assert run.entries == 2, "the deleted key is an entry, too"


def test_nothing_to_read_asks_for_nothing(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "new") as writer, open_replica(tmp_path / "r", [], attempt="a") as replica:
        backend = RocksDBBackend(replica, writer, {})
        assert backend.read(0, []) == []
        assert backend.scan(0, b"\x00\x00\x00", b"\x00\x00\x01") == StateRange([], [])
        for prefixes in ([], [b"\x00\x00\x00", b"\x00\x01\x00a"]):
            found = backend.scan_prefixes(0, prefixes)
            assert (found.prefix_of_row.tolist(), found.keys, found.values) == ([], [], [])


@given(wanted=st.integers(1, 10**7), stored=st.integers(0, 10**9))
def test_a_range_is_scanned_where_that_is_the_cheaper_way(wanted: int, stored: int) -> None:
    plan = decide_read(keys_wanted=wanted, entries_in_range=stored)
    points, scan = wanted * ENTRIES_SCANNED_PER_POINT_READ, stored
    assert plan is (ReadPlan.RANGE_SCAN if scan <= points else ReadPlan.POINT_READS)


@pytest.mark.parametrize("per_group", [FEW, MANY], ids=["scan", "points"])
def test_damage_is_never_taken_for_the_end_of_the_state(tmp_path: Path, per_group: dict[int, float]) -> None:
    entries: Entries = {b"\x00\x00\x00" + number.to_bytes(4, "big"): b"v" * 50 for number in range(5000)}
    wanted = wanted_runs(tmp_path, [entries])
    open_replica(tmp_path / "r", wanted, attempt="a").close()
    (table,) = (tmp_path / "r" / "db").glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2000] = b"\xff" * 2000
    table.unlink()  # the committed file has the same bytes under another name, and stays whole
    table.write_bytes(data)
    with RunWriter(tmp_path / "new") as writer, open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        backend = RocksDBBackend(replica, writer, per_group)
        with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be read"):
            backend.read(0, sorted(entries))
        with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be read") as kept:
            backend.scan(0, b"\x00\x00\x00", b"\x00\x00\x01")
        with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be read") as kept_too:
            backend.scan_prefixes(0, [key[:-1] for key in sorted(entries)[::256]])
        with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be read"):
            backend.scan_ranges(0, [(key, key + b"\0") for key in sorted(entries)[::256]], 10**6)
    assert kept_too.tb is not None, "nor does another"
    assert kept.tb is not None, "a traceback does not keep the database open"
    with RunWriter(tmp_path / "new") as writer, open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        backend = RocksDBBackend(replica, writer, per_group)
        assert backend.read(0, sorted(entries)) == [b"v" * 50] * 5000, "the copy was made anew"
