"""Replicas of jobs that are gone are removed when another job has its first one; all others stay."""

import os
import time
from pathlib import Path

import pytest

from mixedmode.checkpoint.private_folder import own_temporary_folder
from mixedmode.state.rocksdb import open_replica
from mixedmode.tasks.replicas import UNUSED_SECONDS, remove_gone, remove_replicas, replicas_of


@pytest.fixture(autouse=True)
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def job(tmp_path: Path, name: str) -> str:
    """Return the checkpoint folder of a job that has a replica."""
    checkpoints = tmp_path / name
    checkpoints.mkdir()
    open_replica(replicas_of(str(checkpoints)) / "step-1-0-128", [], attempt="a").close()
    return str(checkpoints)


def of_store(url: str, *, unused_seconds: float) -> Path:
    """Return a replica of a job in an object store, which was opened so long ago."""
    replica = replicas_of(url) / "step-1-0-128"
    open_replica(replica, [], attempt="a").close()
    then = time.time() - unused_seconds
    for path in (replica.parent, replica / "lock"):
        os.utime(path, (then, then))
    return replica


def test_a_job_removes_the_replicas_of_those_without_a_checkpoint_folder(tmp_path: Path) -> None:
    gone, kept = job(tmp_path, "gone"), job(tmp_path, "kept")
    Path(gone).rmdir()
    assert replicas_of(kept).exists()
    assert (replicas_of(gone) / "step-1-0-128").exists(), "no job has had its first replica since"
    new = job(tmp_path, "new")
    left = set((own_temporary_folder() / "replicas").iterdir())
    assert left == {replicas_of(kept), replicas_of(new)}


def test_those_of_object_stores_go_when_nobody_has_opened_them_for_long(tmp_path: Path) -> None:
    old = of_store("s3://bucket/old", unused_seconds=UNUSED_SECONDS + 60)
    recent = of_store("s3://bucket/recent", unused_seconds=UNUSED_SECONDS - 60)
    job(tmp_path, "new")
    assert not old.parent.exists()
    assert recent.exists()


def test_to_open_a_replica_is_to_use_it(tmp_path: Path) -> None:
    replica = of_store("s3://bucket/job", unused_seconds=2 * UNUSED_SECONDS)
    open_replica(replica, [], attempt="b").close()
    job(tmp_path, "new")
    assert replica.exists()


def test_a_replica_that_is_held_stays_until_it_is_let_go(tmp_path: Path) -> None:
    gone = job(tmp_path, "gone")
    replicas = replicas_of(gone)
    with open_replica(replicas / "step-1-0-128", [], attempt="b"):
        Path(gone).rmdir()
        remove_gone(replicas.parent, now=time.time())
        assert (replicas / "step-1-0-128" / "lock").exists()
    remove_gone(replicas.parent, now=time.time() + UNUSED_SECONDS + 60)
    assert not replicas.exists()


def test_a_job_that_comes_back_has_its_note_again(tmp_path: Path) -> None:
    checkpoints = job(tmp_path, "job")
    remove_replicas(checkpoints)
    assert (replicas_of(checkpoints) / "checkpoints").read_text() == checkpoints
