"""Damage of what is committed, on Spark: the next start says what it is, goes back, and ends with the exact answer.

One job goes through all cases: each leaves it whole, which is part of what is tested. What a start can tell of damage
is tested over every byte without Spark (tests/checkpoint/test_verify.py), and so is a crash at every step of going
back (tests/checkpoint/test_go_back.py).
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.types import Damage, Manifest
from mixedmode.errors import CorruptStateError
from tests.checkpoint.folders import How, damage
from tests.faults.in_process import dies_at
from tests.faults.jobs import FaultJob
from tests.harness import Recording, manifests, run, write_text

pytestmark = [pytest.mark.spark, pytest.mark.faults]

Files = Callable[[FaultJob, list[Manifest]], list[Path]]


@pytest.fixture(scope="module")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FaultJob:
    job = FaultJob(tmp_path_factory.mktemp("damage") / "a folder")
    text = job.file.read_text().replace("{interval: 100ms,", "{interval: 100ms, num-retained: 100,")
    write_text(job.folder, job.file.name, text)
    job.add("history", 1_000)
    run(job.job, spark, feed=[lambda: job.add("live 1", 100), lambda: job.add("live 2", 100)])
    return job


def live(job: FaultJob) -> Callable[[], None]:
    """Lets another file in."""
    return lambda: job.add(f"live {len(job.rows)}", 60)


def manifest_of(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    return [job.checkpoints / paths.manifest_path(committed[-1].epoch)]


def run_of(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    """A run that the newest epoch has written."""
    return [job.checkpoints / committed[-1].operators[-1].runs[-1].path]


def output_of(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    return [job.out / committed[-1].outputs[0].final_path]


def several(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    return [*manifest_of(job, committed), *run_of(job, committed[:-1]), *output_of(job, committed[:-1])]


def source_entry(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    """Spark itself does not notice a bit that is flipped there, and would read a file a second time."""
    entries = (job.checkpoints / "spark" / "sources" / "0").glob("[0-9]*")
    return [max(entries, key=lambda path: int(path.name.partition(".")[0]))]


def unguarded_source_entry(job: FaultJob, committed: list[Manifest]) -> list[Path]:
    """As in a store without Hadoop's checksum files."""
    for checksum in (job.checkpoints / "spark").rglob(".*.crc"):
        checksum.unlink()
    return source_entry(job, committed)


#: each kind of file once; every way of damage to each of them is in the tests without Spark
CASES: list[tuple[Files, How, int, str]] = [
    (manifest_of, "cut", 1, "manifest"),
    (run_of, "flipped", 1, "state"),
    (output_of, "gone", 1, "output"),
    (several, "flipped", 2, "manifest"),
    (source_entry, "flipped", 1, "spark"),
    (unguarded_source_entry, "flipped", 1, "spark"),
]


@pytest.mark.parametrize(("files", "how", "left", "what"), CASES)
def test_a_start_goes_back_behind_what_is_damaged_and_ends_exact(
    spark: SparkSession, job: FaultJob, files: Files, how: How, left: int, what: str
) -> None:
    committed = list(manifests(job.checkpoints))
    damaged = files(job, committed)
    for path in damaged:
        damage(path, how, where=300)
    job.add(f"while it was down {len(job.rows)}", 80)
    recording = run(job.job, spark, feed=[live(job)] * left)
    (event,) = recording.went_back
    assert event.to == committed[-1 - left].epoch
    told = [found for checkpoint in event.damaged for found in checkpoint.damages]
    assert {found.where for found in told} >= {str(path) for path in damaged if path not in hidden(job, told)}
    assert what in {found.what for found in told}
    job.check()


def hidden(job: FaultJob, told: list[Damage]) -> set[Path]:
    """Return the files that no finding can name, because a manifest that could name them cannot be read."""
    unread = {found.where for found in told if found.what == "manifest"}
    return {path for path in job.out.iterdir() if unread} if unread else set()


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_entries_of_spark_that_the_manifests_know_are_mended(spark: SparkSession, job: FaultJob, name: str) -> None:
    epoch = manifests(job.checkpoints)[-1].epoch
    path = job.checkpoints / "spark" / name / str(epoch)
    damage(path, "cut", where=20)
    job.add(f"mended {name}", 50)
    recording = run(job.job, spark)
    assert not recording.went_back
    assert [event.files for event in recording.repaired] == [(str(path),)]
    job.check()


def test_nothing_whole_is_one_message_that_names_each_checkpoint_and_changes_nothing(
    spark: SparkSession, job: FaultJob
) -> None:
    kept = {path: path.read_bytes() for path in (job.checkpoints / "manifests").iterdir()}
    for path in kept:
        damage(path, "cut", where=100)
    before = contents(job)
    recording = Recording()
    with pytest.raises(CorruptStateError) as refused:
        run(job.job, spark, observer=recording)
    assert str(refused.value).startswith("no checkpoint is whole, so there is none to go on from, and nothing was cha")
    assert str(max(kept)) in str(refused.value)
    assert not recording.went_back
    assert contents(job) == before
    for path, data in kept.items():
        path.write_bytes(data)
    job.add("after all was restored", 50)
    assert not run(job.job, spark).went_back
    job.check()


def contents(job: FaultJob) -> Mapping[Path, bytes]:
    """All files but those that every start writes."""
    files = (
        path for path in job.folder.rglob("*") if path.is_file() and path.parent.name not in {"generations", "logs"}
    )
    return {path: path.read_bytes() for path in files}


def test_a_kill_while_going_back_is_completed_by_the_next_start(spark: SparkSession, job: FaultJob) -> None:
    committed = manifests(job.checkpoints)
    (path,) = run_of(job, list(committed))
    damage(path, "flipped")
    dies_at(job.job, spark, "go-back", committed[-2].epoch)
    job.add("after the kill", 50)
    (event,) = run(job.job, spark).went_back
    assert event.to == committed[-2].epoch
    assert [found.what for checkpoint in event.damaged for found in checkpoint.damages] == ["lineage"]
    job.check()
