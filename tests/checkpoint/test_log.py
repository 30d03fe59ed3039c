"""The log: each object exists once, whoever asks, however often."""

import itertools
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide import CommitPermit, Fenced
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, Committed
from mixedmode.checkpoint.manifest import encode_manifest
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, Manifest
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError
from tests.checkpoint.examples import IDENTITY, a_manifest, a_staged

SERIAL = itertools.count()


@pytest.fixture(params=["folder", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointLog:
    return CheckpointLog(ObjectStore(tmp_path if request.param == "folder" else f"memory:///log-{next(SERIAL)}"))


def permit_for(manifest: Manifest) -> CommitPermit:
    return CommitPermit(manifest.epoch, manifest.generation)


def test_two_files_of_an_output_under_one_published_name_are_never_committed(log: CheckpointLog) -> None:
    generation = log.claim_generation()
    permit = CommitPermit(Epoch(0), generation)
    twice = a_manifest(0, generation=generation, outputs=[a_staged(0, unique="a"), a_staged(0, unique="b")])
    with pytest.raises(AssertionError, match="one would be lost"):
        log.commit(twice, permit)
    assert log.epochs() == ()
    of_two = [a_staged(0), replace(a_staged(0), sink="late")]
    assert isinstance(log.commit(a_manifest(0, generation=generation, outputs=of_two), permit), Committed)


def test_an_empty_folder_says_nothing(log: CheckpointLog) -> None:
    assert (log.latest(), log.epochs(), log.get(Epoch(0))) == (None, (), None)
    assert (log.newest_generation(), log.read_identity()) == (None, None)


def test_no_start_writes_in_a_savepoint_or_reads_it_as_its_checkpoints(log: CheckpointLog) -> None:
    log.store.put_new(paths.SAVEPOINT, b"{}")
    for call in (log.claim_generation, log.read_identity):
        with pytest.raises(InvalidJobError, match=r"this folder is a savepoint.*savepoint restore DIR JOB.*folder="):
            call()
    assert [path for path, _ in log.store.list()] == [paths.SAVEPOINT]


def test_generations_count_up_from_one(log: CheckpointLog) -> None:
    assert [log.claim_generation() for _ in range(3)] == [1, 2, 3]
    assert log.newest_generation() == 3


def test_no_two_starts_hold_one_generation(log: CheckpointLog) -> None:
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: log.claim_generation(), range(16)))
    assert len(set(claimed)) == 16
    assert log.newest_generation() == max(claimed)


def test_a_number_that_was_forgotten_is_not_taken_again(log: CheckpointLog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = log.claim_generation()
    put_new = ObjectStore.put_new

    def two_others_come_in_between(store: ObjectStore, path: str, data: bytes) -> bool:
        monkeypatch.setattr(ObjectStore, "put_new", put_new)
        others = [log.claim_generation(), log.claim_generation()]
        assert others == [2, 3]
        log.forget_older_generations()
        assert path == paths.generation_path(Generation(2))
        return put_new(store, path, data)

    monkeypatch.setattr(ObjectStore, "put_new", two_others_come_in_between)
    assert (first, log.claim_generation()) == (1, 4)


def test_an_older_start_is_told_where_the_newest_one_runs(log: CheckpointLog) -> None:
    older, newest = log.claim_generation(), log.claim_generation()
    numbers = f"own_generation={older}, newest_generation={newest}"
    found = f"{numbers}, newest_host={socket.gethostname()}, newest_process={os.getpid()}"
    with pytest.raises(FencedError, match=f"{re.escape(found)}$"):
        log.check_newest(Epoch(0), own=older)
    log.store.put(paths.generation_path(newest), b"damaged")
    with pytest.raises(FencedError, match=f"{numbers}$"):
        log.check_newest(Epoch(0), own=older)


def test_older_starts_are_forgotten_and_stay_fenced(log: CheckpointLog) -> None:
    old, _, newest = (log.claim_generation() for _ in range(3))
    log.store.put("generations/notes.txt", b"")
    assert log.forget_older_generations() == ("generations/0000000001", "generations/0000000002")
    assert [path for path, _ in log.store.list("generations")] == ["generations/0000000003", "generations/notes.txt"]
    assert log.newest_generation() == newest
    assert isinstance(log.ask_permit(Epoch(0), own=old), Fenced)
    assert log.claim_generation() == newest + 1
    assert CheckpointLog(ObjectStore(f"{log.store.url}/empty")).forget_older_generations() == ()


def test_a_committed_epoch_is_the_latest(log: CheckpointLog) -> None:
    for epoch in range(12):
        manifest = a_manifest(epoch)
        assert log.commit(manifest, permit_for(manifest)) == Committed(manifest)
    assert log.latest() == a_manifest(11)
    assert log.get(Epoch(3)) == a_manifest(3)
    assert log.epochs() == tuple(range(12))


def test_the_second_commit_of_an_epoch_gets_the_first_one_back(log: CheckpointLog) -> None:
    first, second = a_manifest(0, generation=1), a_manifest(0, generation=2)
    log.commit(first, permit_for(first))
    assert log.commit(second, permit_for(second)) == AlreadyCommitted(first)
    assert log.get(Epoch(0)) == first


def test_a_commit_whose_answer_was_lost_is_still_ours(log: CheckpointLog) -> None:
    manifest = a_manifest(0)
    log.store.put_new(paths.manifest_path(Epoch(0)), encode_manifest(manifest))
    assert log.commit(manifest, permit_for(manifest)) == Committed(manifest)


def test_a_permit_is_for_one_epoch_of_one_generation(log: CheckpointLog) -> None:
    manifest = a_manifest(1)
    for permit in (CommitPermit(Epoch(0), Generation(1)), CommitPermit(Epoch(1), Generation(2))):
        with pytest.raises(AssertionError):
            log.commit(manifest, permit)
    assert log.epochs() == ()


def test_an_older_start_is_fenced_once_a_newer_one_exists(log: CheckpointLog) -> None:
    own = log.claim_generation()
    assert log.ask_permit(Epoch(0), own=own) == CommitPermit(Epoch(0), own)
    newer = log.claim_generation()
    assert isinstance(log.ask_permit(Epoch(0), own=own), Fenced)
    assert log.ask_permit(Epoch(0), own=newer) == CommitPermit(Epoch(0), newer)


def test_a_start_whose_record_is_gone_does_not_commit(log: CheckpointLog) -> None:
    own = log.claim_generation()
    log.store.delete([paths.generation_path(own)])
    with pytest.raises(CorruptStateError, match="the record of this start of the job is gone"):
        log.ask_permit(Epoch(0), own=own)


def test_the_identity_of_the_first_start_stays(log: CheckpointLog) -> None:
    assert log.create_identity(IDENTITY) == IDENTITY
    assert log.create_identity(JobIdentity("other", 1, {})) == IDENTITY
    assert log.read_identity() == IDENTITY


def test_names_that_are_not_ours_are_not_epochs_or_generations(log: CheckpointLog) -> None:
    for path in ("manifests/.DS_Store", "manifests/1.json", "generations/x", "generations/a/0000000009"):
        log.store.put(path, b"")
    assert (log.epochs(), log.newest_generation()) == ((), None)


def test_a_damaged_latest_manifest_is_said_and_older_ones_can_be_read(log: CheckpointLog) -> None:
    for epoch in range(2):
        manifest = a_manifest(epoch)
        log.commit(manifest, permit_for(manifest))
    path = paths.manifest_path(Epoch(1))
    whole = log.store.get(path)
    assert whole is not None
    log.store.put(path, whole[:-40])
    with pytest.raises(CorruptStateError, match=rf"file=.*{path}"):
        log.latest()
    assert log.epochs() == (0, 1), "corrupt is not missing"
    assert log.get(Epoch(0)) == a_manifest(0)


def test_a_commit_over_a_damaged_manifest_is_refused(log: CheckpointLog) -> None:
    log.store.put(paths.manifest_path(Epoch(0)), b"")
    manifest = a_manifest(0)
    with pytest.raises(CorruptStateError, match="cut short"):
        log.commit(manifest, permit_for(manifest))


def test_a_manifest_under_another_name_is_refused(log: CheckpointLog) -> None:
    log.store.put(paths.manifest_path(Epoch(5)), encode_manifest(a_manifest(4)))
    with pytest.raises(CorruptStateError, match="under the name of another epoch"):
        log.get(Epoch(5))


def test_a_manifest_cannot_come_before_the_one_it_builds_upon(log: CheckpointLog) -> None:
    manifest = replace(a_manifest(1), previous=Epoch(1))
    with pytest.raises(AssertionError):
        log.commit(manifest, permit_for(manifest))
