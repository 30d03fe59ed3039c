"""The files that Spark has planned beyond a checkpoint, and the entries of its log that are damaged."""

import json
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.go_back import spark_listing
from mixedmode.checkpoint.planned_input import PlannedInput, drop_planned, planned_input
from mixedmode.checkpoint.spark_log import newest_begun
from mixedmode.checkpoint.types import Epoch, Manifest
from tests.checkpoint.folders import FakeJob, damage, source_files

NEWEST = 2


@pytest.fixture
def job(tmp_path: Path) -> FakeJob:
    return FakeJob(tmp_path / "job", NEWEST + 1)


def planned(job: FakeJob, epoch: int | None = NEWEST) -> PlannedInput:
    checkpoint: Manifest | None = None if epoch is None else job.log.get(Epoch(epoch))
    return planned_input(job.log, spark_listing(job.log), checkpoint, (0,))


def urls(*epochs: int) -> list[str]:
    return [json.loads(line)["path"] for epoch in epochs for line in source_files(epoch)]


def named(found: PlannedInput) -> list[str]:
    return sorted(file.url for file in found.files)


def without_checksums(job: FakeJob) -> None:
    for path in (job.folder / "checkpoints" / "spark").rglob(".*.crc"):
        path.unlink()


def test_nothing_is_planned_beyond_the_newest_checkpoint_unless_an_epoch_was_begun(job: FakeJob) -> None:
    assert planned(job) == PlannedInput((), (), ())
    job.begin(NEWEST + 1)
    found = planned(job)
    assert named(found) == urls(NEWEST + 1), "also from a compact entry, which names all files before it too"
    assert found.damaged == ()


def test_going_back_reads_the_files_of_all_later_epochs_again_and_of_none_before(job: FakeJob) -> None:
    assert named(planned(job, 0)) == urls(1, 2)
    assert named(planned(job, None)) == urls(0, 1, 2), "before the first commit"


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("epoch", [NEWEST + 1, NEWEST + 2])
def test_damage_of_what_is_planned_is_dropped_and_what_was_committed_stays(
    job: FakeJob, epoch: int, *, has_checksums: bool
) -> None:
    """Entry NEWEST + 1 is a compact one: a flipped bit in it may be in what was committed."""
    for later in range(NEWEST + 1, epoch):
        job.run_epoch()
        assert job.newest == later
    job.begin(epoch)
    committed = job.newest
    if not has_checksums:
        without_checksums(job)
    path = job.path("source", epoch)
    whole = path.read_bytes()
    before = job.contents()
    seen = set()
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        path.write_bytes(bytes(flipped))
        found = planned(job, committed)
        seen.add(found.damaged)
        assert found.damaged or named(found) != urls(epoch) or found.files != _files(job, whole, path, committed)
    assert (f"spark/sources/0/{path.name}",) in seen
    path.write_bytes(whole)
    damage(path, "cut", where=20)
    drop_planned(job.log, planned(job, committed))
    left = {name: data for name, data in job.contents().items() if "/spark/" in name}
    assert newest_begun(spark_listing(job.log)) == committed
    assert not [name for name in left if f"/{epoch}" in name and "offsets" in name]
    assert all(before[name] == data for name, data in left.items())
    assert planned(job, committed) == PlannedInput((), (), ())


def _files(job: FakeJob, whole: bytes, path: Path, committed: int) -> object:
    found = path.read_bytes()
    path.write_bytes(whole)
    files = planned(job, committed).files
    path.write_bytes(found)
    return files


def test_files_of_an_epoch_that_is_left_count_only_as_its_manifest_says(job: FakeJob) -> None:
    """A flipped bit in a name is no missing file."""
    without_checksums(job)
    path = job.path("source", NEWEST)
    path.write_text(path.read_text().replace(f"{NEWEST}-1.json", f"{NEWEST}-9.json"))
    left = [manifest for epoch in (1, NEWEST) if (manifest := job.log.get(Epoch(epoch))) is not None]
    found = planned_input(job.log, spark_listing(job.log), job.log.get(Epoch(0)), (0,), left=left)
    assert named(found) == urls(1)
    alone = planned_input(job.log, spark_listing(job.log), job.log.get(Epoch(0)), (0,), left=left[1:])
    assert named(alone) == [], "epoch 1 has no manifest of its own, so its part cannot be told"


def test_offsets_that_go_beyond_the_log_of_a_source_are_damaged(job: FakeJob) -> None:
    """Spark would commit them, and pass over what comes later."""
    job.begin(NEWEST + 1)
    without_checksums(job)
    path = job.path("offsets", NEWEST + 1)
    path.write_text(path.read_text().replace('{"logOffset":3}', '{"logOffset":7}'))
    found = planned(job)
    assert found.damaged == (paths.spark_offsets_path(Epoch(NEWEST + 1)),)
    assert drop_planned(job.log, found) == found.damaged
    assert newest_begun(spark_listing(job.log)) == NEWEST


def test_entries_of_sources_that_are_no_logs_of_files_name_no_files(job: FakeJob) -> None:
    job.write_spark(paths.spark_source_path(1, 0), "v1\n1795282338304")
    assert planned(job) == PlannedInput((), (), ())
