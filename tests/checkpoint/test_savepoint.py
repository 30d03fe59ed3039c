"""Savepoints: made of a checkpoint while the job goes on, whole or not there, found when damaged, moved, deleted."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths, savepoint
from mixedmode.checkpoint.savepoint import (
    Savepoint,
    create_savepoint,
    dispose_savepoint,
    find_savepoints,
    read_savepoint,
    savepoint_manifest,
    verify_savepoint,
)
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, GoingBack, ListState
from mixedmode.crash_points import CRASH_AT, DRIVER_PID
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from tests.checkpoint.committed import IDENTITY, Checkpoints
from tests.s3 import S3Server, environment

NOW_MS = 1_700_000_001_000


@pytest.fixture
def job(tmp_path: Path) -> Checkpoints:
    """A job after three epochs, the last of which Spark has not noted yet."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for epoch in range(3):
        checkpoints.commit(epoch)
        if epoch < 2:
            checkpoints.finish(epoch)
    return checkpoints


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket of the S3 server of the tests."""
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    return s3.new_bucket()


def taken(job: Checkpoints, place: Path | str) -> Savepoint:
    return create_savepoint(job.log, ObjectStore(place), now_ms=NOW_MS)


def files_below(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path, _ in ObjectStore(folder).list()}


def test_a_savepoint_is_the_newest_checkpoint_with_all_that_it_needs(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "sp")
    assert (made.job, made.epoch, made.created_ms) == (IDENTITY, 2, NOW_MS)
    assert made.taken_ms == 1_700_000_000_000
    assert made.entries == 2 * (10 + 11 + 12)
    assert read_savepoint(ObjectStore(tmp_path / "sp")) == made
    assert {file.path for file in made.files} == {
        paths.manifest_path(Epoch(2)),
        *(run.path for runs in job.runs.values() for run in runs),
        paths.SPARK_METADATA,
        *(paths.spark_source_path(0, epoch) for epoch in range(3)),
        *(paths.spark_offsets_path(Epoch(epoch)) for epoch in (1, 2)),
        *(paths.spark_commits_path(Epoch(epoch)) for epoch in (0, 1)),
    }
    assert {*files_below(tmp_path / "sp")} == {paths.SAVEPOINT, *(file.path for file in made.files)}
    manifest = savepoint_manifest(ObjectStore(tmp_path / "sp"), made)
    assert manifest == job.kept[-1]
    assert (tmp_path / "sp" / paths.spark_offsets_path(Epoch(2))).read_text() == manifest.offsets


def test_what_a_start_commits_late_after_the_job_has_gone_back_is_passed_over(job: Checkpoints, tmp_path: Path) -> None:
    job.log.claim_generation()
    job.log.record_going_back(GoingBack(Generation(2), Epoch(2), ()))
    job.commit(3)  # of generation 1
    assert taken(job, tmp_path / "sp").epoch == 2


def test_between_folders_of_one_disk_runs_are_hard_links(job: Checkpoints, tmp_path: Path) -> None:
    taken(job, tmp_path / "sp")
    (run, *_) = job.runs["totals"]
    assert (tmp_path / "sp" / run.path).samefile(tmp_path / "checkpoints" / run.path)


def test_list_state_is_in_it(tmp_path: Path) -> None:
    job = Checkpoints(tmp_path / "checkpoints")
    job.commit(0, lists=[ListState("top", "split", (("AQ==",), ()))])
    made = taken(job, tmp_path / "sp")
    assert savepoint_manifest(ObjectStore(tmp_path / "sp"), made).list_states[0].lists == (("AQ==",), ())


def test_it_goes_on_being_whole_when_the_job_drops_the_checkpoint(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "sp")
    job.merge(3)
    for epoch in (3, 4):
        job.commit(epoch)
    while len(job.kept) > 1:
        job.drop_oldest()
    verify_savepoint(ObjectStore(tmp_path / "sp"), made)


@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o700), (0o755, 0o755)])
def test_who_cannot_enter_the_checkpoints_cannot_enter_their_savepoint(
    job: Checkpoints, tmp_path: Path, mode: int, expected: int
) -> None:
    root = job.log.store.local_root
    assert root is not None
    root.chmod(mode)
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp").chmod(0o755)
    taken(job, tmp_path / "sp")
    assert (tmp_path / "sp").stat().st_mode & 0o777 == expected


def test_a_moved_or_copied_savepoint_is_the_same(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "sp")
    shutil.copytree(tmp_path / "sp", tmp_path / "elsewhere" / "copy")
    (tmp_path / "sp").rename(tmp_path / "elsewhere" / "moved")
    for name in ("copy", "moved"):
        store = ObjectStore(tmp_path / "elsewhere" / name)
        verify_savepoint(store, read_savepoint(store))
        assert read_savepoint(store) == made
    assert str(tmp_path).encode() not in b"".join(files_below(tmp_path / "elsewhere").values())


def test_it_may_be_in_an_object_store_and_come_back(job: Checkpoints, tmp_path: Path, bucket: str) -> None:
    store = ObjectStore(f"{bucket}/kept/sp")
    made = taken(job, store.url)
    verify_savepoint(store, read_savepoint(store))
    assert list(find_savepoints(ObjectStore(bucket))) == [(store.url, made)]
    for file in made.files:
        assert store.copy_to(file.path, ObjectStore(tmp_path / "back")) == file.checksum
    assert store.copy_to("no/such", ObjectStore(tmp_path / "back")) is None
    assert job.store.copy_to("no/such", ObjectStore(tmp_path / "back")) is None
    with pytest.raises(InvalidJobError, match="there is a savepoint in this folder already"):
        taken(job, store.url)
    dispose_savepoint(store)
    assert not store.list()


def test_checkpoints_in_an_object_store_have_savepoints_on_disk(tmp_path: Path, bucket: str) -> None:
    job = Checkpoints(f"{bucket}/checkpoints")
    job.commit(0)
    made = taken(job, tmp_path / "sp")
    verify_savepoint(ObjectStore(tmp_path / "sp"), made)
    assert savepoint_manifest(ObjectStore(tmp_path / "sp"), made) == job.kept[-1]


# --- what damages one ------------------------------------------------------------------------------------------------


def truncated(file: Path) -> str:
    size = file.stat().st_size
    os.truncate(file, size - 1)
    return f"it has {size - 1} bytes instead of {size}"


def flipped(file: Path) -> str:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    return "its bytes are not those that were written"


def removed(file: Path) -> str:
    file.unlink()
    return "it is missing"


@pytest.mark.parametrize("damage", [truncated, flipped, removed])
def test_damage_of_any_file_is_found_and_named(job: Checkpoints, tmp_path: Path, damage: Callable[[Path], str]) -> None:
    whole = tmp_path / "whole"
    taken(job, whole)
    for number, file in enumerate(read_savepoint(ObjectStore(whole)).files):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(whole, copy)
        why = damage(copy / file.path)
        store = ObjectStore(copy)
        with pytest.raises(CorruptStateError) as caught:
            verify_savepoint(store, read_savepoint(store))
        assert str(caught.value) == (
            f"the savepoint is damaged: {file.path}: {why}. Nothing was changed. Take another copy of it, or another "
            f"savepoint. folder={copy}, damaged=1, files=15"
        )
        if paths.parse_manifest_path(file.path) is not None:
            with pytest.raises(CorruptStateError, match="the savepoint is damaged"):
                savepoint_manifest(store, read_savepoint(store))


def test_damage_of_its_description_is_found(job: Checkpoints, tmp_path: Path) -> None:
    for number, damage in enumerate((truncated, flipped)):
        taken(job, tmp_path / f"{number}")
        damage(tmp_path / f"{number}" / paths.SAVEPOINT)
        with pytest.raises(
            CorruptStateError, match=r"the description of a savepoint cannot be used: .*savepoint\.json"
        ):
            read_savepoint(ObjectStore(tmp_path / f"{number}"))


def test_much_damage_is_named_in_part_and_counted(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "sp")
    for file in made.files:
        (tmp_path / "sp" / file.path).unlink()
    with pytest.raises(CorruptStateError, match=r"; and 10 more\. .* damaged=15, files=15"):
        verify_savepoint(ObjectStore(tmp_path / "sp"), made)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_folder_with_anything_in_it_is_refused_and_left_as_it_is(job: Checkpoints, tmp_path: Path) -> None:
    taken(job, tmp_path / "sp")
    before = files_below(tmp_path / "sp")
    with pytest.raises(InvalidJobError) as caught:
        taken(job, tmp_path / "sp")
    assert str(caught.value) == (
        "there is a savepoint in this folder already, and it is not replaced. Name a new folder, or dispose of the "
        f"savepoint first. folder={tmp_path / 'sp'}"
    )
    assert files_below(tmp_path / "sp") == before
    for folder in (job.store.url, str(tmp_path)):  # the checkpoints themselves, and a folder with a savepoint in it
        with pytest.raises(InvalidJobError, match="a savepoint has a folder of its own, and there is something else"):
            taken(job, folder)


def test_what_is_no_checkpoint_folder_and_one_without_checkpoints_are_refused(tmp_path: Path) -> None:
    log = Checkpoints(tmp_path / "new").log
    with pytest.raises(InvalidJobError, match="there is no checkpoint yet that a savepoint could be taken of"):
        create_savepoint(log, ObjectStore(tmp_path / "sp"), now_ms=NOW_MS)
    (tmp_path / "new" / "job.json").unlink()
    with pytest.raises(InvalidJobError, match=r"there is no job\.json in it\. If the job was never started, start it"):
        create_savepoint(log, ObjectStore(tmp_path / "sp"), now_ms=NOW_MS)
    assert not (tmp_path / "sp").exists()


def test_a_job_whose_input_has_ended_has_nothing_to_go_on_with(job: Checkpoints, tmp_path: Path) -> None:
    job.commit(3, is_final=True)
    with pytest.raises(InvalidJobError, match="the input of this job has ended, so nothing could go on"):
        taken(job, tmp_path / "sp")


@pytest.mark.parametrize("damage", [truncated, flipped, removed])
def test_a_damaged_checkpoint_makes_no_savepoint(
    job: Checkpoints, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    run = job.runs["totals"][1].path
    damage(tmp_path / "checkpoints" / run)
    with pytest.raises(CorruptStateError) as caught:
        taken(job, tmp_path / "sp")
    assert "a file of the newest checkpoint cannot be copied: it " in str(caught.value)
    assert str(caught.value).endswith(f"file={tmp_path}/checkpoints/{run}")
    assert not (tmp_path / "sp" / paths.SAVEPOINT).exists()


@pytest.mark.parametrize("path", [paths.spark_source_path(0, 1), paths.spark_offsets_path(Epoch(1))])
def test_a_damaged_log_of_spark_makes_no_savepoint(job: Checkpoints, tmp_path: Path, path: str) -> None:
    truncated(tmp_path / "checkpoints" / path)
    with pytest.raises(CorruptStateError, match=f"cannot be copied: it cannot be read.*file={tmp_path}.*{path}"):
        taken(job, tmp_path / "sp")
    (tmp_path / "checkpoints" / paths.spark_source_path(0, 1)).unlink()
    with pytest.raises(CorruptStateError, match=r"cannot be copied: it is missing.*sources/0/1"):
        taken(job, tmp_path / "sp")


# --- while the job goes on, and when the power goes ------------------------------------------------------------------


def racing(job: Checkpoints, *, times: int) -> Callable[[ObjectStore, str, ObjectStore], str | None]:
    """ObjectStore.copy_to, before which the job commits an epoch and drops all before it; so many times."""
    epochs, copy_to, alone = iter(range(3, 3 + times)), ObjectStore.copy_to, threading.Lock()

    def copy(store: ObjectStore, path: str, target: ObjectStore) -> str | None:
        with alone:
            for epoch in epochs:
                job.merge(epoch)
                job.commit(epoch)
                while len(job.kept) > 1:
                    job.drop_oldest()
                break
        return copy_to(store, path, target)

    return copy


def test_a_checkpoint_that_is_dropped_meanwhile_gives_way_to_the_newest(
    job: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "copy_to", racing(job, times=3))
    made = taken(job, tmp_path / "sp")
    assert made.epoch == 5
    verify_savepoint(ObjectStore(tmp_path / "sp"), made)
    assert {*files_below(tmp_path / "sp")} == {paths.SAVEPOINT, *(file.path for file in made.files)}, "no leftovers"


def test_a_job_that_always_drops_them_is_told_so(
    job: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "copy_to", racing(job, times=100))
    with pytest.raises(RetryableError, match=r"drops its checkpoints faster than they can be copied.*attempts=5"):
        taken(job, tmp_path / "sp")
    assert not (tmp_path / "sp" / paths.SAVEPOINT).exists()


KILLED = """
import sys
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
create_savepoint(CheckpointLog(ObjectStore(sys.argv[1])), ObjectStore(sys.argv[2]), now_ms=1)
"""


def test_killed_before_its_description_it_is_no_savepoint_and_is_made_again(job: Checkpoints, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, job.store.url, str(tmp_path / "sp")]
    environment = {key: value for key, value in os.environ.items() if key != DRIVER_PID} | {CRASH_AT: "savepoint@2"}
    for _ in range(2):
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
        assert not list(find_savepoints(ObjectStore(tmp_path)))
        with pytest.raises(InvalidJobError, match=r"this is no savepoint: there is no savepoint\.json in it"):
            read_savepoint(ObjectStore(tmp_path / "sp"))
    job.merge(3)
    job.commit(3)
    made = taken(job, tmp_path / "sp")
    assert made.epoch == 3
    verify_savepoint(ObjectStore(tmp_path / "sp"), made)
    assert {*files_below(tmp_path / "sp")} == {paths.SAVEPOINT, *(file.path for file in made.files)}, "no leftovers"


def test_of_two_that_are_made_at_once_in_one_folder_one_is_made(
    job: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Savepoint] = []

    def reach(name: str, epoch: int) -> None:
        monkeypatch.setattr(savepoint, "reach", lambda name, epoch: None)
        first.append(taken(job, tmp_path / "sp"))

    monkeypatch.setattr(savepoint, "reach", reach)
    with pytest.raises(InvalidJobError, match="there is a savepoint in this folder already"):
        taken(job, tmp_path / "sp")
    verify_savepoint(ObjectStore(tmp_path / "sp"), first[0])


# --- list, dispose ---------------------------------------------------------------------------------------------------


def test_savepoints_below_a_folder_are_found_also_damaged_ones(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "all" / "b")
    job.commit(3)
    later = taken(job, tmp_path / "all" / "deep" / "a")
    taken(job, tmp_path / "all" / "c")
    flipped(tmp_path / "all" / "c" / paths.SAVEPOINT)
    found = dict(find_savepoints(ObjectStore(tmp_path / "all")))
    broken = found.pop(str(tmp_path / "all" / "c"))
    assert found == {str(tmp_path / "all" / "b"): made, str(tmp_path / "all" / "deep" / "a"): later}
    assert isinstance(broken, CorruptStateError)
    assert dict(find_savepoints(ObjectStore(tmp_path / "all" / "b"))) == {str(tmp_path / "all" / "b"): made}


def test_disposing_deletes_what_it_names_and_nothing_else(job: Checkpoints, tmp_path: Path) -> None:
    made = taken(job, tmp_path / "sp")
    (tmp_path / "sp" / "notes.txt").write_text("before the migration")
    checkpoints = files_below(tmp_path / "checkpoints")
    assert dispose_savepoint(ObjectStore(tmp_path / "sp")) == made
    assert {*files_below(tmp_path / "sp")} == {"notes.txt"}
    assert files_below(tmp_path / "checkpoints") == checkpoints, "a link is one of several names"
    with pytest.raises(InvalidJobError, match="this is no savepoint"):
        dispose_savepoint(ObjectStore(tmp_path / "sp"))


def test_what_is_no_savepoint_is_not_disposed_of(job: Checkpoints, tmp_path: Path) -> None:
    before = files_below(tmp_path / "checkpoints")
    with pytest.raises(InvalidJobError, match="this is a checkpoint folder, and no savepoint"):
        dispose_savepoint(job.store)
    assert files_below(tmp_path / "checkpoints") == before
    taken(job, tmp_path / "sp")
    flipped(tmp_path / "sp" / paths.SAVEPOINT)
    broken = files_below(tmp_path / "sp")
    with pytest.raises(CorruptStateError, match="the description of a savepoint cannot be used"):
        dispose_savepoint(ObjectStore(tmp_path / "sp"))
    assert files_below(tmp_path / "sp") == broken
