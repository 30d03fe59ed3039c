"""Merging runs: the newest entry of each key, and deleted keys as long as an older run may hold them."""

import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Rdict

from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.keys import KeyGroupRange
from mixedmode.state.rocksdb import LocalRun, RunWriter, open_replica
from mixedmode.state.rocksdb import columns as columns_module
from mixedmode.state.rocksdb.columns import ColumnsFolder, ColumnsWriter, RunColumns
from mixedmode.state.rocksdb.merge import merge_columns, merge_runs
from mixedmode.state.rocksdb.replica import WantedRun
from tests.random_cases import random_cases
from tests.state.runs import Entries, contents, entries_of, laid_over, run_entries, wanted_runs, write_run

ALL_GROUPS = KeyGroupRange(0, 2**15)
FIXED_KEYS = st.lists(st.sampled_from([b"\x00", b"a", b"\xff"]), min_size=3, max_size=3).map(
    lambda key: b"a" + b"".join(key)
)
VALUES = st.none() | st.binary(min_size=1, max_size=3)


def in_columns(scratch: Path, runs: list[Entries]) -> list[RunColumns]:
    """The columns of runs named "0", "1", ..., which lie in the folder `kept` of `scratch`."""
    folder = ColumnsFolder(scratch / "kept")
    scratch.mkdir(exist_ok=True)
    for number, entries in enumerate(runs):
        writer = ColumnsWriter(scratch / "new", bytes_max=1 << 20)
        for key in sorted(entries):
            writer.write([key], [entries[key]])
        written = writer.finish()
        assert written is not None
        folder.keep(str(number), written)
    found = folder.find([str(number) for number in range(len(runs))], bytes_max=1 << 20)
    assert found is not None
    return found


def merged_or_none(
    folder: Path, runs: list[Entries], *, keeps_tombstones: bool, groups: KeyGroupRange = ALL_GROUPS
) -> LocalRun | None:
    wanted = wanted_runs(folder / "committed", runs)
    with RunWriter(folder / "merged") as writer:
        return merge_runs(
            folder / "scratch", wanted, state_id=0, groups=groups, keeps_tombstones=keeps_tombstones, writer=writer
        )


def merged(folder: Path, runs: list[Entries], *, keeps_tombstones: bool) -> LocalRun:
    run = merged_or_none(folder, runs, keeps_tombstones=keeps_tombstones)
    assert run is not None
    return run


@settings(max_examples=random_cases(10))
@given(older=run_entries(), runs=st.lists(run_entries(), min_size=1, max_size=4))
def test_a_merged_run_over_older_ones_stands_for_the_runs_it_was_merged_from(
    tmp_path_factory: pytest.TempPathFactory, older: Entries, runs: list[Entries]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    run = merged(folder, runs, keeps_tombstones=True)
    assert run.entries == len({key for entries in runs for key in entries}), "deleted keys included"
    wanted = [
        WantedRun("older", partial(os.link, write_run(folder / "older", older).path)),
        WantedRun("merged", partial(os.link, run.path)),
    ]
    with open_replica(folder / "r", wanted, attempt="a") as replica:
        assert contents(replica) == laid_over([older, *runs])


@settings(max_examples=random_cases(10))
@given(runs=st.lists(run_entries(), min_size=1, max_size=4))
def test_a_merged_run_with_nothing_below_it_forgets_deleted_keys(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    run = merged(folder, runs, keeps_tombstones=False)
    expected = laid_over(runs)
    assert run.entries == max(1, len(expected)), "a run is never empty, so one deleted key may stay"
    with open_replica(folder / "r", [WantedRun("merged", partial(os.link, run.path))], attempt="a") as replica:
        assert contents(replica) == expected


@settings(max_examples=random_cases(13))
@given(
    runs=st.lists(run_entries(), min_size=1, max_size=4),
    groups=st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda pair: KeyGroupRange(pair[0], sum(pair))),
    keeps=st.booleans(),
)
def test_a_merge_takes_of_its_runs_what_is_of_its_key_groups(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], groups: KeyGroupRange, keeps: bool
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    inside: list[Entries] = [
        {key: value for key, value in entries.items() if groups.start <= key[1] < groups.end} for entries in runs
    ]
    run = merged_or_none(folder, runs, keeps_tombstones=keeps, groups=groups)
    if not any(inside):
        assert run is None
        return
    assert run is not None
    assert run.entries == (len({key for e in inside for key in e}) if keeps else max(1, len(laid_over(inside))))
    with open_replica(folder / "r", [WantedRun("merged", partial(os.link, run.path))], attempt="a") as replica:
        assert contents(replica) == laid_over(inside)


@settings(max_examples=random_cases(20))
@given(
    runs=st.lists(st.dictionaries(FIXED_KEYS, VALUES, min_size=1, max_size=12), min_size=1, max_size=5),
    keeps=st.booleans(),
    batch_entries=st.integers(1, 5),
)
def test_runs_in_columns_are_merged_as_rocksdb_merges_them(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], keeps: bool, batch_entries: int
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BATCH_ENTRIES", batch_entries)
        columns = in_columns(folder / "columns", runs)
    with RunWriter(folder / "from-columns") as writer:
        found = merge_columns(columns, state_id=0, keeps_tombstones=keeps, writer=writer)
    expected = merged(folder, runs, keeps_tombstones=keeps)
    assert found is not None
    assert (found.state_id, found.entries) == (expected.state_id, expected.entries)
    assert entries_of(found.path) == entries_of(expected.path)


def test_columns_are_found_for_all_runs_or_for_none(tmp_path: Path) -> None:
    columns = in_columns(tmp_path, [{b"a": b"1"}, {b"b": b"2"}])
    folder, both_bytes = ColumnsFolder(tmp_path / "kept"), sum(run.bytes for run in columns)
    assert folder.find(["0", "1"], bytes_max=both_bytes) is not None
    assert folder.find(["0", "1"], bytes_max=both_bytes - 1) is None, "they would not stay within the memory"
    assert folder.find(["0", "2"], bytes_max=both_bytes) is None


def test_a_run_larger_than_a_batch_is_merged_whole(tmp_path: Path) -> None:
    runs: list[Entries] = [
        {number.to_bytes(4, "big"): b"old" for number in range(120_000)},
        {number.to_bytes(4, "big"): b"new" for number in range(60_000, 130_000)},
    ]
    assert merged(tmp_path, runs, keeps_tombstones=True).entries == 130_000


def test_a_committed_run_that_is_damaged_is_said_by_whoever_fetches_it(tmp_path: Path) -> None:
    def damaged(_: Path) -> None:
        msg = "a committed run is damaged"
        raise CorruptStateError(msg)

    with RunWriter(tmp_path / "merged") as writer, pytest.raises(CorruptStateError, match=r"is damaged$"):
        merge_runs(
            tmp_path, [WantedRun("a", damaged)], state_id=0, groups=ALL_GROUPS, keeps_tombstones=True, writer=writer
        )


def test_damage_is_never_taken_for_the_end_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Entries] = [{number.to_bytes(4, "big"): b"v" * 50 for number in range(5000)}]
    real = Rdict.ingest_external_file

    def ingest_damaged(database: Rdict, paths: list[str], options: object) -> None:
        real(database, paths, options)  # type: ignore[arg-type]
        (table,) = (tmp_path / "scratch" / "db").glob("*.sst")
        data = bytearray(table.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 2000] = b"\xff" * 2000
        table.write_bytes(data)

    monkeypatch.setattr(Rdict, "ingest_external_file", ingest_damaged)
    with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be written to "):
        merged(tmp_path, runs, keeps_tombstones=True)
