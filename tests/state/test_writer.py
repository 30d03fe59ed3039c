"""Runs are SST files in key order; what is out of order or finds no room is refused, and nothing half-done stays."""

import os
import pickle
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InternalError, RetryableError
from mixedmode.state.rocksdb import LocalRun, RunWriter, open_replica
from mixedmode.state.rocksdb.replica import WantedRun
from tests.random_cases import random_cases
from tests.state.runs import Entries, contents, run_entries
from tests.state.sst_files import Ingested


@settings(max_examples=random_cases(10))
@given(run_entries(), st.integers(1, 3))
def test_a_run_holds_what_was_written_in_any_number_of_writes(
    tmp_path_factory: pytest.TempPathFactory, entries: Entries, step: int
) -> None:
    folder, keys = tmp_path_factory.mktemp("run"), sorted(entries)
    with RunWriter(folder / "new") as writer:
        for start in range(0, len(keys), step):
            some = keys[start : start + step]
            writer.write(0, some, [entries[key] for key in some])
        runs = writer.finish()
    deletions = sum(value is None for value in entries.values())
    assert runs == [LocalRun(folder / "new" / "state-000.sst", 0, len(entries), deletions)], "and deletions are entries"
    wanted = [WantedRun("a", partial(os.link, runs[0].path))]
    with open_replica(folder / "replica", wanted, attempt="a") as replica:
        assert contents(replica) == {key: entries[key] for key in keys if entries[key] is not None}


def test_each_state_has_a_run_of_its_own_and_none_without_entries(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "new") as writer:
        writer.write(7, [b"b"], [b"1"])
        writer.write(0, [b"a", b"b"], [b"1", None])
        writer.write(3, [], [])
        runs = writer.finish()
    assert [(run.state_id, run.entries, run.path.name) for run in runs] == [
        (0, 2, "state-000.sst"),
        (7, 1, "state-007.sst"),
    ]


def test_without_a_write_there_is_not_even_a_folder(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "new") as writer:
        assert writer.finish() == []
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("earlier", "keys", "key", "before"),
    [
        ([], [b"b", b"a"], b"a", b"b"),
        ([], [b"a", b"a"], b"a", b"a"),
        ([b"c"], [b"b"], b"b", b"c"),
        ([b"c"], [b"c", b"d"], b"c", b"c"),
    ],
)
def test_keys_that_do_not_grow_are_refused_in_full(
    tmp_path: Path, earlier: list[bytes], keys: list[bytes], key: bytes, before: bytes
) -> None:
    with RunWriter(tmp_path) as writer:
        writer.write(0, earlier, [b"1"] * len(earlier))
        with pytest.raises(InternalError) as caught:
            writer.write(0, keys, [b"1"] * len(keys))
    assert str(caught.value) == (
        "keys of a sorted run must be strictly increasing, and these are not, so state would be lost. This "
        f"is a defect; report it. state_id=0, key={key.hex()}, key_before={before.hex()}"
    )


def _write_and_fail(folder: Path, *, finishes: bool) -> None:
    with RunWriter(folder) as writer:
        writer.write(0, [b"a"], [b"1"])
        if finishes:
            writer.finish()
        assert [path.name for path in folder.iterdir()] == ["state-000.sst"]
        raise KeyboardInterrupt


@pytest.mark.parametrize(("finishes", "left"), [(False, []), (True, ["state-000.sst"])])
def test_leaving_early_removes_what_was_not_handed_over(tmp_path: Path, finishes: bool, left: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        _write_and_fail(tmp_path, finishes=finishes)
    assert [path.name for path in tmp_path.iterdir()] == left


def _write(folder: Path, keys: list[bytes]) -> None:
    with RunWriter(folder) as writer:
        writer.write(0, keys, [Random(key).randbytes(100) for key in keys])
        writer.finish()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("entries", [1, 100_000])
def test_a_full_disk_is_retryable(tmp_path: Path, entries: int) -> None:
    (tmp_path / "state-000.sst").symlink_to("/dev/full")
    keys = [number.to_bytes(4, "big") for number in range(entries)]
    with pytest.raises(RetryableError) as caught:
        _write(tmp_path, keys)
    written = 1 if entries == 1 else 0  # the write that fails counts for nothing
    assert str(caught.value) == (
        "the local disk does not take the new state of this epoch; nothing of it is committed. Free some space "
        "there, or set TMPDIR to another disk; then start the job again: it resumes from its last checkpoint. "
        f"path={tmp_path / 'state-000.sst'}, entries_written={written}"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "Spark ships errors between processes"


def test_a_folder_that_cannot_be_made_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with RunWriter(tmp_path / "file" / "new") as writer, pytest.raises(RetryableError, match=r"entries_written=0$"):
        writer.write(0, [b"a"], [b"1"])


def test_the_time_spent_writing_is_counted(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        assert writer.seconds == 0.0
        writer.write(0, [b"a"], [b"1"])
        assert writer.seconds > 0.0, "it is what the migration rate is computed from"
        writer.finish()


@pytest.mark.parametrize("scanned_columns_bytes", [0, 10_000])
def test_a_state_that_is_only_scanned_has_columns_of_its_own_limit(tmp_path: Path, scanned_columns_bytes: int) -> None:
    with RunWriter(
        tmp_path, columns_bytes=10_000, scanned_columns_bytes=scanned_columns_bytes, only_scanned={2}
    ) as writer:
        for state_id in (1, 2):
            writer.write(state_id, [b"key"], [b"v"])
        read_by_key, scanned = writer.finish()
        assert read_by_key.columns is not None
        assert (scanned.columns is not None) == bool(scanned_columns_bytes)


def test_the_file_of_a_state_that_is_only_scanned_has_no_filter(tmp_path: Path) -> None:
    keys, values = [b"\0\0%c%05d" % (7, number) for number in range(1000)], [b"v"] * 1000
    with RunWriter(tmp_path, only_scanned={2}) as writer:
        for state_id in (1, 2):
            writer.write(state_id, keys, values)
        filtered, scanned = writer.finish()
    for run, has_filter in ((filtered, True), (scanned, False)):
        with Ingested(run.path) as database:
            found = database.read([key + b"x" for key in keys])
            assert (found.forward, found.points) == (list(zip(keys, values, strict=True)), [None] * 1000)
            assert (database.counted("bloom.filter.useful") > 0) == has_filter
