"""Garbage: only what nothing names and nothing can come to name is deleted."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import gc, output_paths, paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.gc import collect_orphans, discard_attempts, drop_checkpoint, find_orphans, unneeded_files
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, Committed
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from tests.checkpoint.examples import a_manifest, a_run, a_staged

SERIAL = itertools.count()


@pytest.fixture(params=["folder", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointLog:
    return CheckpointLog(ObjectStore(tmp_path / "c" if request.param == "folder" else f"memory:///gc-{next(SERIAL)}"))


@pytest.fixture
def sink(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "out")


def commit(log: CheckpointLog, manifest: Manifest) -> None:
    outcome = log.commit(manifest, CommitPermit(manifest.epoch, manifest.generation))
    assert isinstance(outcome, Committed), outcome


def names(listed: ObjectStore) -> list[str]:
    return [path for path, _ in listed.list()]


def deleted(stores: Sequence[ObjectStore], act: Callable[[], None]) -> list[str]:
    """Act. Return the deleted runs and staged outputs."""
    before = [names(store) for store in stores]
    act()
    gone = [path for store, there in zip(stores, before, strict=True) for path in there if not store.exists(path)]
    return [path for path in gone if path.startswith((paths.RUNS, output_paths.STAGING))]


def collected(log: CheckpointLog, *sinks: ObjectStore) -> list[str]:
    return deleted([log.store, *sinks], lambda: collect_orphans(log, sinks=sinks))


def test_of_each_kind_of_file_only_orphans_are_found() -> None:
    named, left, later, alien = a_run(1).path, a_run(1, unique="dead").path, a_run(2).path, "runs/step-1/notes.txt"
    manifests = [a_manifest(1, runs=[a_run(1)])]
    assert find_orphans([named, left, later, alien], manifests, latest=Epoch(1)) == [left]


def test_without_a_manifest_nothing_is_garbage() -> None:
    assert find_orphans([a_run(0).path, a_staged(0).staged_path], [], latest=None) == []


def test_whatever_an_unreadable_manifest_might_name_is_kept() -> None:
    listing = [a_run(epoch, unique="x").path for epoch in (1, 2, 3)]
    assert find_orphans(listing, [a_manifest(3)], latest=Epoch(3), unreadable=Epoch(2)) == listing[2:]


FILES = st.tuples(st.integers(0, 6), st.integers(0, 1), st.sampled_from("abc"))


@given(
    files=st.lists(FILES, unique=True, max_size=20),
    referenced=st.sets(FILES, max_size=10),
    epochs=st.sets(st.integers(0, 6)),
    future=st.integers(0, 6),
)
def test_no_file_that_is_or_may_come_to_be_named_is_an_orphan(
    files: list[tuple[int, int, str]],
    referenced: set[tuple[int, int, str]],
    epochs: set[int],
    future: int,
) -> None:
    manifests = [
        a_manifest(epoch, runs=[a_run(*file) for file in sorted(referenced) if file[0] <= epoch]) for epoch in epochs
    ]
    latest = Epoch(max(epochs)) if epochs else None
    listing = [a_run(*file).path for file in files] + ["runs/x/odd"]
    orphans = find_orphans(listing, manifests, latest=latest)
    assert set(orphans) <= set(listing)
    named = {run.path for manifest in manifests for operator in manifest.operators for run in operator.runs}
    assert not named.intersection(orphans)
    if latest is None or future > latest:  # its manifest can still be written, and may name any file of its epoch
        assert not {a_run(*file).path for file in files if file[0] == future}.intersection(orphans)


def test_a_collection_deletes_orphans_and_nothing_else(log: CheckpointLog, sink: ObjectStore) -> None:
    commit(log, a_manifest(0, runs=[a_run(0)], outputs=[a_staged(0)]))
    kept = [a_run(0).path, a_run(1).path, "runs/step-1/notes.txt"]
    for path in [*kept, a_run(0, unique="dead").path]:
        log.store.put(path, b"12345")
    staged = [a_staged(0).staged_path, a_staged(1).staged_path, "part-0000000000-0000000009.parquet"]
    for path in [*staged, a_staged(0, unique="dead").staged_path]:
        sink.put(path, b"1234567")
    assert collected(log, sink) == [a_run(0, unique="dead").path, a_staged(0, unique="dead").staged_path]
    assert [path for path in names(log.store) if path.startswith("runs")] == sorted(kept)
    assert names(sink) == sorted(staged)
    assert collected(log, sink) == [], "a second collection finds nothing"


def test_a_collection_goes_through_the_folders_of_all_outputs(log: CheckpointLog, tmp_path: Path) -> None:
    sinks = [ObjectStore(tmp_path / name) for name in ("main", "late", "alerts")]
    named = [replace(a_staged(1), sink=name) for name in ("", "late")]
    commit(log, a_manifest(1, outputs=named))
    for store in sinks:
        for path in (a_staged(1).staged_path, a_staged(1, unique="dead").staged_path, a_staged(2).staged_path):
            store.put(path, b"1234567")
    assert collected(log, *sinks) == [a_staged(1, unique="dead").staged_path] * 3
    for store in sinks:
        # that of alerts is of the attempt that counts, so it could only be there if its manifest named it, too
        assert names(store) == [a_staged(1).staged_path, a_staged(2).staged_path], store.url
    assert collected(log, *sinks) == [], "a second collection finds nothing"


def test_a_start_takes_back_its_own_files_of_all_outputs(log: CheckpointLog, tmp_path: Path) -> None:
    sinks = [ObjectStore(tmp_path / name) for name in ("main", "late")]
    mine, other = (paths.attempt(Generation(number), "a1") for number in (2, 1))
    for store in sinks:
        store.put(a_staged(3, unique=mine).staged_path, b"1234567")
        store.put(a_staged(3, unique=other).staged_path, b"1234567")
    discard_attempts(log, sinks=sinks, epoch=Epoch(3), own=Generation(2))
    assert [names(store) for store in sinks] == [[a_staged(3, unique=other).staged_path]] * 2


def test_a_collection_without_a_sink_folder_collects_runs(log: CheckpointLog) -> None:
    commit(log, a_manifest(0))
    log.store.put(a_run(0).path, b"12345")
    assert collected(log) == [a_run(0).path]


def test_a_collection_in_an_empty_folder_does_nothing(log: CheckpointLog, sink: ObjectStore) -> None:
    assert collected(log, sink) == []


def test_a_damaged_manifest_keeps_its_files(log: CheckpointLog, sink: ObjectStore) -> None:
    commit(log, a_manifest(0, runs=[a_run(0)]))
    log.store.put(a_run(0).path, b"12345")
    log.store.put(paths.manifest_path(Epoch(0)), b"damaged")
    assert collected(log, sink) == []
    assert log.store.exists(a_run(0).path)


def test_a_start_that_was_stopped_right_before_its_commit_loses_no_file(log: CheckpointLog, sink: ObjectStore) -> None:
    old = log.claim_generation()
    permit = log.ask_permit(Epoch(0), own=old)
    assert isinstance(permit, CommitPermit)
    log.store.put(a_run(0).path, b"12345")
    stopped = a_manifest(0, generation=old, runs=[a_run(0)])

    new = log.claim_generation()
    collect_orphans(log, sinks=[sink])
    assert log.commit(stopped, permit) == Committed(stopped), "it goes on after the newer start has collected"

    mine = a_manifest(0, generation=new, runs=[a_run(0, unique="b")])
    assert log.commit(mine, CommitPermit(Epoch(0), new)) == AlreadyCommitted(stopped)
    assert log.store.exists(a_run(0).path), "what counts now is whole"


def test_garbage_of_a_failed_backlog_goes_once_the_backlog_is_committed(log: CheckpointLog, sink: ObjectStore) -> None:
    for attempt in "abc":
        log.store.put(a_run(0, unique=attempt).path, b"12345")
    assert collected(log, sink) == []
    commit(log, a_manifest(0, runs=[a_run(0, unique="c")]))
    assert collected(log, sink) == [a_run(0, unique=attempt).path for attempt in "ab"]


def test_a_start_takes_back_only_its_own_files_of_one_epoch(log: CheckpointLog, sink: ObjectStore) -> None:
    mine, other = paths.attempt(Generation(2), "a1"), paths.attempt(Generation(1), "a1")
    log.store.put(a_run(3, unique=mine).path, b"12345")
    sink.put(a_staged(3, unique=mine).staged_path, b"1234567")
    kept = [a_run(3, unique=other).path, a_run(2, unique=mine).path, a_run(3, unique="plain").path]
    for path in kept:
        log.store.put(path, b"12345")
    discard_attempts(log, sinks=[sink], epoch=Epoch(3), own=Generation(2))
    assert names(log.store) == sorted(kept)
    assert names(sink) == []


def test_dropping_a_checkpoint_deletes_only_what_no_other_one_names(log: CheckpointLog) -> None:
    shared, merged_away, merged = a_run(0), a_run(1), a_run(2, unique="m")
    old, newest = a_manifest(1, runs=[shared, merged_away]), a_manifest(2, runs=[shared, merged])
    for run in (shared, merged_away, merged):
        log.store.put(run.path, b"state")
    commit(log, old)
    commit(log, newest)
    assert unneeded_files(old, [newest]) == (merged_away.path,)
    drop_checkpoint(log, old, [newest])
    assert log.epochs() == (2,)
    assert [path for path in names(log.store) if path.startswith(paths.RUNS)] == [shared.path, merged.path]


def test_a_crash_after_the_manifest_is_dropped_leaves_runs_that_the_next_collection_finds(log: CheckpointLog) -> None:
    merged_away, merged = a_run(1), a_run(2, unique="m")
    for run in (merged_away, merged):
        log.store.put(run.path, b"state")
    commit(log, a_manifest(2, runs=[merged]))  # as if the manifest of epoch 1 had been deleted, and then nothing more
    assert collected(log) == [merged_away.path]


def test_a_file_that_is_several_runs_is_kept_while_one_of_them_is_named_and_deleted_once(log: CheckpointLog) -> None:
    left = replace(a_run(0), key_group_end=16, clipped_from=(0, 64))
    right = replace(a_run(0), key_group_start=32, clipped_from=(0, 64))
    merged = a_run(1, unique="m")
    manifests = [a_manifest(1, runs=[left, merged, right]), a_manifest(2, runs=[merged, right]), a_manifest(3)]
    for run in (left, merged):
        log.store.put(run.path, b"12345")
    for manifest in manifests:
        commit(log, manifest)
    dropped = deleted([log.store], lambda: drop_checkpoint(log, manifests[0], manifests[1:]))
    assert dropped == [], "a part of the file counts"
    assert collected(log) == []
    dropped = deleted([log.store], lambda: drop_checkpoint(log, manifests[1], manifests[2:]))
    assert dropped == [left.path, merged.path]
    assert unneeded_files(manifests[0], []) == (left.path, merged.path)


def test_a_collection_forgets_earlier_starts(log: CheckpointLog) -> None:
    starts = [log.claim_generation() for _ in range(3)]
    assert collected(log) == [], "they are records, not files of attempts"
    assert [path for path in names(log.store) if path.startswith(paths.GENERATIONS)] == [
        paths.generation_path(starts[-1])
    ]


class Killed(BaseException):
    """Stands for SIGKILL."""


@contextmanager
def killed_at(name: str, epoch: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def reach(reached: str, at: int) -> None:
        if (reached, at) == (name, epoch):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(gc, "reach", reach)
        yield


def test_a_crash_in_a_collection_leaves_the_rest_for_the_next_one(
    log: CheckpointLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(log, a_manifest(2, runs=[a_run(2)]))
    garbage = [a_run(epoch, unique="dead").path for epoch in range(3)]
    for path in [a_run(2).path, *garbage]:
        log.store.put(path, b"12345")
    with killed_at("collect", 2, monkeypatch), pytest.raises(Killed):
        collect_orphans(log, sinks=[])
    assert [path for path in garbage if log.store.exists(path)] == garbage[1:], "some of it is deleted"
    assert collected(log) == garbage[1:]
    assert log.store.exists(a_run(2).path)


def test_a_crash_while_a_checkpoint_is_dropped_leaves_its_runs_for_the_next_collection(
    log: CheckpointLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, newest = a_manifest(1, runs=[a_run(1)]), a_manifest(2, runs=[a_run(2, unique="m")])
    for manifest in (old, newest):
        commit(log, manifest)
        log.store.put(manifest.operators[0].runs[0].path, b"12345")
    with killed_at("drop", 2, monkeypatch), pytest.raises(Killed):
        drop_checkpoint(log, old, [newest])
    assert log.epochs() == (2,)
    assert log.store.exists(a_run(1).path)
    assert collected(log) == [a_run(1).path]
