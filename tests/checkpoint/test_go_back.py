"""Going back: the right checkpoint, nothing older touched, and the same end wherever it is cut off."""

import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode import crash_points
from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.gc import collect_orphans
from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from mixedmode.connectors.console.sink import ConsoleSink
from mixedmode.driver.recovery import find_checkpoint, leave_damaged
from mixedmode.errors import CorruptStateError, FencedError
from mixedmode.sinks import Sinks
from tests.checkpoint.folders import COMPACT_EVERY, RUNS_HELD, FakeJob, How, damage, offsets_of
from tests.harness import Recording
from tests.random_cases import random_cases

NEWEST = 6

Hit = tuple[str, int]  # (what, epoch) of a damaged file


class PowerCutError(Exception):
    """The machine goes down, in a test."""


@dataclass
class Power:
    """Lets so many changes of files happen, then none."""

    left: int
    changes: list[str] = field(default_factory=list)

    def change(self, path: str) -> None:
        if self.left == 0:
            raise PowerCutError
        self.left -= 1
        self.changes.append(path)


@contextmanager
def power(changes: int) -> Iterator[Power]:
    """Inside, every single deletion and every put counts as a change."""
    supply = Power(changes)
    delete, put, put_new = LocalFiles.delete, LocalFiles.put, LocalFiles.put_new

    def one_by_one(files: LocalFiles, named: list[str]) -> None:
        for path in named:
            supply.change(path)
            delete(files, [path])

    def counted_put(files: LocalFiles, path: str, data: bytes) -> None:
        supply.change(path)
        put(files, path, data)

    def counted_put_new(files: LocalFiles, path: str, data: bytes) -> bool:
        supply.change(path)
        return put_new(files, path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFiles, "delete", one_by_one)
        patch.setattr(LocalFiles, "put", counted_put)
        patch.setattr(LocalFiles, "put_new", counted_put_new)
        yield supply


def recover(job: FakeJob, *, reads: bool = True, sinks: Sinks | None = None) -> tuple[list[Manifest], Recording]:
    """Do the recovery of a start, up to its first epoch."""
    recording = Recording()
    sinks = sinks or job.sinks
    found = find_checkpoint(job.log, sinks, reads=reads)
    retained = leave_damaged(job.log, sinks, found, job.generation, recording)
    return retained, recording


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> FakeJob:
    return FakeJob(tmp_path_factory.mktemp("original") / "job", NEWEST + 1)


@pytest.fixture
def job(original: FakeJob, tmp_path: Path) -> FakeJob:
    return original.copied(tmp_path / "job")


def is_whole(epoch: int, hits: set[Hit]) -> bool:
    """The model: what each checkpoint of FakeJob needs."""
    runs = {("run", number) for number in range(max(0, epoch - RUNS_HELD + 1), epoch + 1)}
    compact = (epoch + 1) // COMPACT_EVERY * COMPACT_EVERY - 1
    sources = {("source", number) for number in range(max(compact, 0), epoch + 1)}
    return not hits & {("manifest", epoch), ("output", epoch), *runs, *sources}


def test_a_job_of_which_nothing_is_damaged_goes_on_from_its_newest_checkpoint(job: FakeJob) -> None:
    before = job.contents()
    retained, recording = recover(job)
    assert [manifest.epoch for manifest in retained] == list(range(NEWEST + 1))
    assert job.contents() == before
    assert recording == Recording()


@pytest.mark.parametrize("what", ["offsets", "commits", "metadata", "source"])
@pytest.mark.parametrize("epoch", [NEWEST - 1, NEWEST])
def test_any_flipped_bit_of_sparks_log_is_mended_or_left_behind_without_its_checksums(
    job: FakeJob, tmp_path: Path, what: str, epoch: int
) -> None:
    """Spark then reads the log that it wrote, except for numbers of its own that nothing depends on."""
    for checksum in (job.folder / "checkpoints" / "spark").rglob(".*.crc"):
        checksum.unlink()
    length = len(job.path(what, epoch).read_bytes())
    for position in range(0, length, max(1, length // 12)):
        hit = job.copied(tmp_path / f"hit at {position}")
        path = hit.path(what, epoch)
        damage(path, "flipped", where=position)
        retained, _ = recover(hit)
        newest = retained[-1].epoch
        assert newest >= epoch - 1 if what in {"source", "offsets"} else newest == NEWEST
        offsets = hit.path("offsets", newest).read_text()
        assert offsets == offsets_of(newest)
        if newest > 0:
            assert hit.path("offsets", newest - 1).read_text() == offsets_of(newest - 1)
        commits = hit.path("commits", newest)
        assert not commits.exists() or commits.read_bytes().startswith(b"v1\n{")
        assert find_checkpoint(hit.log, hit.sinks, reads=True).damaged == ()


def test_what_is_damaged_is_told_and_left_behind_and_the_files_of_later_epochs_are_gone(job: FakeJob) -> None:
    run, output = job.path("run", NEWEST - 1), job.path("output", NEWEST)
    damage(run, "cut")
    damage(output, "gone")
    retained, recording = recover(job)
    assert [manifest.epoch for manifest in retained] == list(range(NEWEST - 1))
    (told,) = recording.went_back
    assert (told.to, told.files_rolled_back, told.not_rolled_back) == (NEWEST - 2, 1, ())
    assert [(one.epoch, [found.where for found in one.damages]) for one in told.damaged] == [
        (NEWEST, [str(run), str(output)]),
        (NEWEST - 1, [str(run)]),
    ]
    left = job.contents()
    assert max(name for name in left if name.startswith("out/part-")) == f"out/part-{NEWEST - 2:010}-{0:010}.parquet"
    listed = {
        int(name.rsplit("/", 1)[1])
        for name in left
        if name.startswith("checkpoints/spark/offsets/") and "crc" not in name
    }
    assert max(listed) == NEWEST - 2
    assert f"checkpoints/spark/sources/0/{NEWEST - 1}" not in left
    record = job.log.store.get(paths.going_back_path(job.generation, Epoch(NEWEST - 2)))
    assert record is not None
    assert str(run).encode() in record


def test_after_going_back_the_job_goes_on_and_the_collector_finds_what_was_left(job: FakeJob) -> None:
    damage(job.path("manifest", NEWEST), "flipped")
    left_behind = job.path("run", NEWEST - 1)
    damage(left_behind, "flipped")
    recover(job)
    for _ in range(3):
        job.run_epoch()
    collect_orphans(job.log, sinks=job.sinks.stores)
    assert not left_behind.exists()
    named = {
        run.path
        for epoch in job.log.epochs()
        if (manifest := job.log.get(epoch)) is not None
        for operator in manifest.operators
        for run in operator.runs
    }
    assert {path for path, _ in job.log.store.list(paths.RUNS)} == named
    retained, recording = recover(job)
    assert [manifest.generation for manifest in retained[-4:]] == [1, 2, 2, 2]
    assert not recording.went_back


@pytest.mark.parametrize("how", ["gone", "cut", "flipped"])
def test_a_job_with_nothing_whole_is_refused_with_each_checkpoint_and_nothing_is_changed(
    job: FakeJob, how: How
) -> None:
    for epoch in range(NEWEST + 1):
        damage(job.path("output", epoch), how)
    before = job.contents(without=())
    with power(0), pytest.raises(CorruptStateError) as refused:
        find_checkpoint(job.log, job.sinks, reads=True)
    assert str(refused.value).startswith(
        "no checkpoint is whole, so there is none to go on from, and nothing was changed. Restore what is damaged from "
        "a copy (it is found in its place at the next start), or the whole checkpoint folder; or start over with a new "
        "execution.checkpointing.dir and output. checkpoint 6: an output "
    )
    for epoch in range(NEWEST + 1):
        assert f"checkpoint {epoch}: an output " in str(refused.value)
        assert f"file={job.path('output', epoch)}" in str(refused.value)
    assert job.contents(without=()) == before


def test_a_manifest_that_is_gone_is_missed_because_spark_counts_its_epoch_as_done(job: FakeJob) -> None:
    damage(job.path("manifest", NEWEST), "gone")
    damage(job.path("manifest", NEWEST - 1), "gone")
    _, recording = recover(job)
    (told,) = recording.went_back
    assert [(one.epoch, one.damages[0].why) for one in told.damaged] == [
        (NEWEST, "its manifest is missing"),
        (NEWEST - 1, "its manifest is missing"),
    ]
    assert told.files_rolled_back == 2


def test_a_manifest_that_is_gone_is_missed_because_its_output_is_there(job: FakeJob) -> None:
    """A crash came between the publication and Spark's commit."""
    damage(job.path("commits", NEWEST), "gone")
    damage(job.path("manifest", NEWEST), "gone")
    _, recording = recover(job)
    assert [one.epoch for one in recording.went_back[0].damaged] == [NEWEST]
    assert recording.went_back[0].files_rolled_back == 1


def test_an_output_that_is_ahead_of_all_that_the_folder_knows_is_not_rolled_back(job: FakeJob, tmp_path: Path) -> None:
    ahead = job.folder / "out" / output_paths.final_path(Epoch(NEWEST + 1), 0, "parquet")
    ahead.write_bytes(b"of another job, or of a later time")
    with pytest.raises(CorruptStateError) as refused:
        recover(job)
    assert str(refused.value) == (
        "the output holds epochs that this checkpoint folder never began, so one of the two is from another time, or "
        "another job writes to the same output; nothing was changed. Restore the checkpoint folder that belongs to the "
        "output; or, to go on from this one, move the newer files of the output away. "
        "newest_epoch_in_output=7, newest_begun=6, latest_committed=6"
    )
    assert ahead.exists()


def test_all_manifests_gone_is_nothing_whole(job: FakeJob) -> None:
    for epoch in range(NEWEST + 1):
        damage(job.path("manifest", epoch), "gone")
    with pytest.raises(CorruptStateError, match=r"^no checkpoint is whole.* checkpoint 6: its manifest is missing"):
        find_checkpoint(job.log, job.sinks, reads=True)


def test_what_an_older_start_commits_while_a_new_one_looks_is_not_missed(
    job: FakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = CheckpointLog.epochs

    def after_one_more(log: CheckpointLog) -> tuple[Epoch, ...]:
        monkeypatch.undo()
        job.run_epoch()
        return listed(log)

    monkeypatch.setattr(CheckpointLog, "epochs", after_one_more)
    found = find_checkpoint(job.log, job.sinks, reads=True)
    assert found.damaged == ()
    assert found.whole == job.log.get(Epoch(NEWEST + 1))


def test_a_new_folder_has_nothing_to_find(tmp_path: Path) -> None:
    job = FakeJob(tmp_path)
    assert find_checkpoint(job.log, job.sinks, reads=True).whole is None
    job.begin(0)
    assert find_checkpoint(job.log, job.sinks, reads=True).whole is None, "nor has one in whose first epoch we died"


HITS = st.tuples(st.sampled_from(["manifest", "run", "output", "source", "offsets", "commits"]), st.integers(0, NEWEST))


@settings(max_examples=random_cases(20))
@given(hits=st.lists(HITS, max_size=6), how=st.sampled_from(["cut", "flipped", "gone"]), where=st.integers(0, 10**6))
def test_the_newest_whole_checkpoint_is_found_whatever_is_damaged(
    original: FakeJob, hits: list[Hit], how: How, where: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = original.copied(Path(folder, "job"))
        files = {job.path(*hit) for hit in hits}
        for file in files:
            damage(file, how, where=where)
        whole = [epoch for epoch in range(NEWEST + 1) if is_whole(epoch, set(hits))]
        before = job.contents()
        if not whole:
            with pytest.raises(CorruptStateError):
                recover(job)
            assert job.contents() == before
            return
        retained, _ = recover(job)
        assert retained[-1].epoch == whole[-1]
        left = job.contents()
        for name in before.keys() & left.keys():
            if "/spark/" not in name:
                assert left[name] == before[name]
        assert {name for name in before.keys() - left.keys() if epoch_in(name) <= whole[-1]} == set(), "of older epochs"
        again, recording = recover(job)
        assert again == retained
        assert not recording.went_back
        assert not recording.repaired


def epoch_in(name: str) -> int:
    """The epoch of a file of FakeJob; -1 for one that Spark does without."""
    if "/spark/" in name:
        file = paths.parse_spark_path(name.removeprefix("checkpoints/"))
        is_needed = file is not None and file.log == "offsets" and not file.is_checksum
        return file.number if file is not None and is_needed else NEWEST + 1
    return int("".join(filter(str.isdigit, name.rsplit("/", 1)[1]))[:10])


@pytest.mark.parametrize(
    "hits",
    [
        [("manifest", NEWEST)],
        [("run", NEWEST - 1), ("output", NEWEST - 3)],
        [("source", NEWEST - 1), ("manifest", NEWEST - 2)],
        [("offsets", NEWEST - 2), ("offsets", NEWEST - 3), ("run", NEWEST), ("output", NEWEST - 1), ("metadata", 0)],
    ],
)
@pytest.mark.parametrize("how", ["gone", "flipped"])
def test_cut_off_after_any_change_the_next_start_ends_in_the_same_folder(
    original: FakeJob, tmp_path: Path, hits: list[Hit], how: How
) -> None:
    undisturbed = damaged_copy(original, tmp_path / "undisturbed", hits, how)
    with power(10_000) as supply:
        retained, _ = recover(undisturbed)
    changes, left = len(supply.changes), undisturbed.contents()
    assert changes > 5, supply.changes
    for cut_after in range(changes):
        job = damaged_copy(original, tmp_path / f"cut after {cut_after}", hits, how)
        with power(cut_after), pytest.raises(PowerCutError):
            recover(job)
        job.start_again()
        again, _ = recover(job)
        assert again == retained, f"cut off after {supply.changes[:cut_after]}"
        assert without_metadata(job.contents()) == without_metadata(left), supply.changes[:cut_after]


def damaged_copy(original: FakeJob, folder: Path, hits: list[Hit], how: How) -> FakeJob:
    job = original.copied(folder)
    for file in [job.path(*hit) for hit in hits]:
        damage(file, how)
    return job


def without_metadata(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Spark's metadata are made of the name of the folder, if they are made anew."""
    return {name: b"" if name.endswith("spark/metadata") else data for name, data in contents.items()}


def test_a_kill_at_the_named_place_is_completed_by_the_next_start(
    job: FakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(job.path("run", NEWEST), "cut")
    monkeypatch.setenv(crash_points.CRASH_AT, f"go-back@{NEWEST - 1}")
    killed = os.fork()
    if killed == 0:  # pragma: no cover - in a process that dies
        monkeypatch.setenv(crash_points.DRIVER_PID, str(os.getpid()))
        recover(job)
        os._exit(0)
    _, status = os.waitpid(killed, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    monkeypatch.delenv(crash_points.CRASH_AT)
    assert not (job.folder / "out" / output_paths.final_path(Epoch(NEWEST), 0, "parquet")).exists()
    assert job.newest == NEWEST
    job.start_again()
    retained, recording = recover(job)
    assert retained[-1].epoch == job.newest == NEWEST - 1
    assert len(recording.went_back) == 1


def test_a_start_that_was_overtaken_changes_nothing(job: FakeJob) -> None:
    damage(job.path("run", NEWEST), "cut")
    job.log.claim_generation()
    before = job.contents(without=())
    with pytest.raises(FencedError):
        recover(job)
    assert job.contents(without=()) == before


def test_a_manifest_that_a_start_of_the_past_puts_late_is_left_behind_in_its_turn(job: FakeJob) -> None:
    """It was stopped right before its commit, and goes on after another start went back before its epoch."""
    stalled = job.generation
    job.begin(NEWEST + 1)
    late = job.manifest(NEWEST + 1)
    damage(job.path("manifest", NEWEST), "cut")
    job.start_again()
    recover(job)
    job.run_epoch()  # the new NEWEST
    assert late.generation == stalled
    job.log.commit(late, CommitPermit(late.epoch, stalled))
    job.begin(NEWEST + 1)
    own = job.manifest(NEWEST + 1)
    with pytest.raises(CorruptStateError, match=r"^an older start of this job, stopped long ago, went on and put"):
        job.log.commit(own, CommitPermit(own.epoch, own.generation))
    job.start_again()
    retained, recording = recover(job)
    assert [(one.epoch, one.damages[0].what) for one in recording.went_back[0].damaged] == [(NEWEST + 1, "lineage")]
    assert (retained[-1].epoch, retained[-1].generation) == (NEWEST, Generation(stalled + 1)), "its own past stays"
    assert job.run_epoch().epoch == NEWEST + 1


def test_what_the_console_has_printed_is_said_to_stay(job: FakeJob) -> None:
    console = ConsoleSink(str(job.folder / "console"), lambda rows, total, name: None, "late")
    damage(job.path("manifest", NEWEST), "cut")
    _, recording = recover(job, sinks=Sinks({**job.sinks.by_name, "late": console}))
    assert recording.went_back[0].not_rolled_back == ("late",)


@pytest.mark.parametrize(
    "hit",
    [("offsets", NEWEST), ("offsets", NEWEST - 1), ("commits", NEWEST), ("commits", NEWEST - 1), ("metadata", 0)],
)
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_what_of_sparks_log_can_be_told_from_the_manifests_is_mended(job: FakeJob, hit: Hit, how: How) -> None:
    before = job.contents()
    file = job.path(*hit)
    damage(file, how)
    retained, recording = recover(job)
    assert retained[-1].epoch == NEWEST
    assert not recording.went_back
    (told,) = recording.repaired
    assert told.files == (str(file),)
    match hit[0]:
        case "offsets":
            assert file.read_bytes() == before[f"checkpoints/spark/offsets/{hit[1]}"]
        case "commits":
            assert not file.exists(), "Spark hands the epoch over again"
        case _:
            assert file.read_bytes().startswith(b'{"id": "')
    checksum = file.with_name(f".{file.name}.crc")
    assert not checksum.exists(), "it was of what is gone"


def test_the_range_of_an_epoch_under_way_that_is_damaged_is_fixed_anew(job: FakeJob) -> None:
    job.begin(NEWEST + 1)
    damage(job.path("offsets", NEWEST + 1), "flipped")
    retained, recording = recover(job)
    assert retained[-1].epoch == NEWEST
    assert recording.repaired[0].files == (str(job.path("offsets", NEWEST + 1)),)
    assert not job.path("offsets", NEWEST + 1).exists()


def test_the_offsets_before_the_only_checkpoint_left_are_replaced_by_its_own(job: FakeJob) -> None:
    for epoch in range(NEWEST):
        damage(job.path("manifest", epoch), "gone")
    damage(job.path("offsets", NEWEST - 1), "gone")
    recover(job)
    assert job.path("offsets", NEWEST - 1).read_text() == offsets_of(NEWEST)
