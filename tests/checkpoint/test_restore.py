"""A savepoint put into an empty checkpoint folder: what is there then, what is refused, and one that is cut short."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.decide_restore import Restorable
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.restore import (
    Restoration,
    check_moved,
    commit_restored,
    copy_restored,
    is_restored,
    restored_manifest,
)
from mixedmode.checkpoint.savepoint import create_savepoint, read_savepoint, savepoint_manifest
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, ListState
from mixedmode.crash_points import CRASH_AT, DRIVER_PID
from mixedmode.driver.recovery import find_checkpoint
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError, RetryableError
from mixedmode.sinks import Sinks
from tests.checkpoint.committed import IDENTITY, Checkpoints
from tests.checkpoint.examples import a_staged

ALL = Restorable(("totals", "top"), (), (), changed_outputs=())
ONE = Restorable(("totals",), (), ("top",), changed_outputs=("",))
ONE_STEP = JobIdentity("orders", 128, {"totals": IDENTITY.operators["totals"]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A savepoint after the epochs 0 to 3."""
    job = Checkpoints(tmp_path / "before")
    for epoch in range(4):
        job.commit(epoch)
        job.finish(epoch)
    create_savepoint(job.log, ObjectStore(tmp_path / "sp"), now_ms=1)
    return tmp_path / "sp"


def given(place: Path, identity: JobIdentity = IDENTITY, steps: Restorable = ALL) -> Restoration:
    source = ObjectStore(place)
    savepoint = read_savepoint(source)
    stored = savepoint_manifest(source, savepoint)
    return Restoration(source, savepoint, identity, restored_manifest(stored, identity, steps, outputs=[""]))


def restore(log: CheckpointLog, what: Restoration) -> None:
    assert not is_restored(log, what)
    commit_restored(log, what, copy_restored(log, what))


def contents(folder: Path) -> dict[str, bytes]:
    """Everything but the generations."""
    listing = (path for path, _ in ObjectStore(folder).list() if paths.parse_generation_path(path) is None)
    return {path: (folder / path).read_bytes() for path in listing}


def test_the_folder_is_that_of_a_job_after_the_epoch(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    restore(log, given(place))
    latest = log.latest()
    assert latest is not None
    assert (log.epochs(), latest.previous, latest.generation) == ((3,), None, 1)
    assert log.read_identity() == IDENTITY
    assert log.newest_generation() == latest.generation, "so that the next start has one of its own"
    assert log.store.get(paths.spark_offsets_path(Epoch(3))) == latest.offsets.encode()
    for operator in latest.operators:
        assert len(operator.runs) == 4
        assert all(log.store.checksum(run.path) == run.checksum for run in operator.runs)
    spark = {path for path, _ in log.store.list(paths.SPARK)}
    assert spark == {path for path, _ in ObjectStore(place).list(paths.SPARK)}


def test_state_of_steps_that_are_gone_is_left_out(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    restore(log, given(place, ONE_STEP, ONE))
    latest = log.latest()
    assert latest is not None
    assert [operator.operator_id for operator in latest.operators] == ["totals"]
    assert {path.split("/")[1] for path, _ in log.store.list(paths.RUNS)} == {"totals"}


def test_lists_and_outputs_are_those_that_go_on(tmp_path: Path) -> None:
    job = Checkpoints(tmp_path / "before")
    kept, gone = ListState("totals", "split", (("AQ==",),)), ListState("top", "union", ((),))
    stored = replace(
        job.commit(0, lists=[kept, gone]),
        outputs=(a_staged(0), replace(a_staged(0), sink="late")),
        output_names=("", "late", "other"),
    )
    restored = restored_manifest(stored, ONE_STEP, ONE, outputs=["late", "other"])
    assert restored.list_states == (kept,)
    assert restored.outputs == (replace(a_staged(0), sink="late"),), "published again, should it not have been"
    assert restored.output_names == ("late", "other")
    assert (restored.job, restored.epoch, restored.offsets) == ("orders", stored.epoch, stored.offsets)


def test_restoring_again_finds_it_done(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    restore(log, given(place))
    before = contents(tmp_path / "new")
    assert is_restored(log, given(place))
    assert contents(tmp_path / "new") == before
    with pytest.raises(InvalidJobError, match="a savepoint is restored to an empty checkpoint folder"):
        is_restored(log, given(place, ONE_STEP, ONE))


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_folder_with_checkpoints_is_refused(place: Path, tmp_path: Path, epochs: int) -> None:
    other = Checkpoints(tmp_path / "other")
    for epoch in range(epochs):
        other.commit(epoch)
    with pytest.raises(InvalidJobError) as caught:
        is_restored(other.log, given(place))
    assert str(caught.value) == (
        "a savepoint is restored to an empty checkpoint folder, and the one of this job holds something of another "
        "run. Give the job a new execution.checkpointing.dir, or delete the folder if what is in it is not needed. "
        f"folder={tmp_path / 'other'}, checkpoints={epochs}, latest_epoch={epochs - 1}"
    )


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (paths.SPARK_METADATA, b'{"id":"another"}'),
        (paths.spark_offsets_path(Epoch(0)), b"v1"),
        (paths.spark_source_path(0, 0), b"v1"),
        (paths.spark_checksum_path(paths.spark_offsets_path(Epoch(3))), b"crc"),
    ],
)
def test_the_log_of_another_spark_query_is_refused(place: Path, tmp_path: Path, path: str, data: bytes) -> None:
    """A job that was killed in its first backlog leaves one, and no checkpoint."""
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    log.store.put(path, data)
    with pytest.raises(InvalidJobError, match=f"holds something of another run.*found={path}"):
        is_restored(log, given(place))


def test_another_jobs_folder_is_refused(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    log.create_identity(replace(IDENTITY, name="other"))
    with pytest.raises(InvalidJobError, match=r"holds something of another run.*found=job\.json"):
        is_restored(log, given(place))


def test_a_start_of_the_job_meanwhile_fences_the_restore(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    generation = copy_restored(log, given(place))
    log.claim_generation()
    with pytest.raises(FencedError, match="the job was started in this checkpoint folder while"):
        commit_restored(log, given(place), generation)
    assert not log.epochs()


def test_a_file_that_is_damaged_after_it_was_verified_is_not_restored(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    what = given(place)
    path = next(file.path for file in what.savepoint.files if paths.parse_run_path(file.path) is not None)
    (place / path).unlink()
    (place / path).write_bytes(b"other")
    with pytest.raises(CorruptStateError, match=f"is not any more.*file={place}/{path}"):
        copy_restored(log, what)


def test_moved_input_is_named_as_it_is_now_in_the_log_of_spark_only(place: Path, tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    moved = replace(given(place), moved={"/in": "/data/in"})
    check_moved(moved)
    restore(log, moved)
    assert is_restored(log, moved)
    found, stored = contents(tmp_path / "new"), contents(place)
    changed = {path for path in found.keys() & stored.keys() if found[path] != stored[path]}
    assert changed == {*(paths.spark_source_path(0, epoch) for epoch in range(4)), paths.manifest_path(Epoch(3))}
    assert found[paths.spark_source_path(0, 2)] == b'v1\n{"path":"file:///data/in/2.json","timestamp":2,"batchId":2}'


def test_a_folder_that_nothing_was_read_from_has_not_moved(place: Path) -> None:
    with pytest.raises(InvalidJobError) as caught:
        check_moved(replace(given(place), moved={"/in": "/data/in", "/input": "/data/input"}))
    assert str(caught.value) == (
        "no file that the savepoint's job has read was in a folder that is said to have moved. Name the folder as it "
        f"was then. folder=file:///input, savepoint={place}"
    )


KILLED = """
import sys
from tests.checkpoint.test_restore import *
restore(CheckpointLog(ObjectStore(sys.argv[1])), given(Path(sys.argv[2])))
"""


def test_killed_before_its_manifest_it_has_not_happened_and_is_done_again(place: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "new"), str(place)]
    environment = {key: value for key, value in os.environ.items() if key != DRIVER_PID} | {CRASH_AT: "restore@3"}
    log = CheckpointLog(ObjectStore(tmp_path / "new"))
    for _ in range(2):
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
        assert log.latest() is None
    restore(log, given(place))
    restore(CheckpointLog(ObjectStore(tmp_path / "undisturbed")), given(place))
    found, undisturbed = contents(tmp_path / "new"), contents(tmp_path / "undisturbed")
    manifest = paths.manifest_path(Epoch(3))
    assert log.get(Epoch(3)) == replace(given(place).manifest, generation=Generation(3))
    assert {**found, manifest: b""} == {**undisturbed, manifest: b""}


def test_a_start_over_half_of_a_restore_stops_wherever_it_was_cut(place: Path, tmp_path: Path) -> None:
    """It must not take the folder for an empty one, and begin the sources anew."""
    restore(CheckpointLog(ObjectStore(tmp_path / "whole")), given(place))
    writes = len(contents(tmp_path / "whole")) - 1  # all but the manifest
    for number in range(1, writes + 1):
        log = CheckpointLog(ObjectStore(tmp_path / f"cut-{number}"))
        with pytest.MonkeyPatch.context() as patch:
            cut_after(number, patch)
            with pytest.raises(RetryableError, match="the power is gone"):
                restore(log, given(place))
        with pytest.raises(CorruptStateError):
            find_checkpoint(log, Sinks({}), reads=True)
        restore(log, given(place))
        assert find_checkpoint(log, Sinks({}), reads=True).whole == log.latest()


def cut_after(number: int, patch: pytest.MonkeyPatch) -> None:
    """After so many files, nothing more is written."""
    left, alone = iter(range(number)), threading.Lock()

    def cutting(write: Callable[..., Any]) -> Callable[..., Any]:
        def cut(store: ObjectStore, path: str, *arguments: Any) -> Any:
            if not path.startswith(paths.GENERATIONS):
                with alone:
                    is_gone = next(left, None) is None
                if is_gone:
                    msg = "the power is gone"
                    raise RetryableError(msg)
            return write(store, path, *arguments)

        return cut

    for name in ("put", "put_new", "copy_to"):
        patch.setattr(ObjectStore, name, cutting(getattr(ObjectStore, name)))
