"""Any change of any file that a checkpoint names is found and named; nothing else is."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.document import NewerFormatError
from mixedmode.checkpoint.go_back import spark_listing
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import CheckedCheckpoint, Damage, Epoch, Generation, GoingBack
from mixedmode.checkpoint.verify import Verifier
from mixedmode.connectors.console.sink import ConsoleSink
from mixedmode.errors import RetryableError
from tests.checkpoint.folders import FakeJob, How, damage, offsets_of

NEWEST = 5  # the source's log was compacted once, at 3


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> FakeJob:
    return FakeJob(tmp_path_factory.mktemp("original") / "job", NEWEST + 1)


@pytest.fixture
def job(original: FakeJob, tmp_path: Path) -> FakeJob:
    return original.copied(tmp_path / "job")


def checked(job: FakeJob, epoch: int = NEWEST, *, reads: bool = True) -> tuple[Damage, ...]:
    return verifier(job, reads=reads).check(Epoch(epoch))[1].damages


def verifier(job: FakeJob, *, reads: bool = True) -> Verifier:
    return Verifier(job.log, job.sinks.by_name, reads, spark_listing(job.log), job.log.goings_back())


def test_checkpoints_of_which_nothing_is_damaged_are_whole(job: FakeJob) -> None:
    (job.folder / "out" / "README").write_text("not a file of ours")
    verify = verifier(job)
    for epoch in range(NEWEST + 1):
        manifest, checkpoint = verify.check(Epoch(epoch))
        assert checkpoint == CheckedCheckpoint(Epoch(epoch), ())
        assert manifest == job.log.get(Epoch(epoch))


@pytest.mark.parametrize(
    ("what", "epoch", "how", "why"),
    [
        ("manifest", NEWEST, "gone", "its manifest is missing"),
        ("manifest", NEWEST, "cut", "the manifest of a checkpoint cannot be used: it is cut short or overwritten, by"),
        ("manifest", NEWEST, "flipped", "the manifest of a checkpoint cannot be used: "),
        ("run", NEWEST - 2, "gone", "a run of the state is missing"),
        ("run", NEWEST - 1, "cut", "a run of the state has another size, bytes=7, bytes_committed="),
        ("run", NEWEST, "flipped", "a run of the state has changed, checksum="),
        ("output", NEWEST, "gone", "an output is missing"),
        ("output", NEWEST, "cut", "an output has another size, bytes=7, bytes_committed="),
        ("output", NEWEST, "flipped", "an output has changed, checksum="),
        ("source", NEWEST, "gone", "a source's entry in Spark's log is missing"),
        ("source", NEWEST - 1, "cut", "a source's entry in Spark's log does not match its checksum"),
        ("source", 3, "flipped", "a source's entry in Spark's log does not match its checksum"),
    ],
)
def test_each_kind_of_damage_is_told_with_its_file(job: FakeJob, what: str, epoch: int, how: How, why: str) -> None:
    path = job.path(what, epoch)
    damage(path, how)
    (found,) = checked(job)
    assert found.where == str(path)
    assert found.why.startswith(why)
    assert str(found).endswith(f", file={path}")


@given(
    file=st.sampled_from(
        [("manifest", NEWEST), ("run", NEWEST - 2), ("run", NEWEST), ("output", NEWEST), ("source", 3)]
    ),
    how=st.sampled_from(["cut", "flipped", "gone"]),
    where=st.integers(0, 10**6),
)
def test_any_change_of_any_byte_is_found(original: FakeJob, file: tuple[str, int], how: How, where: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = original.copied(Path(folder, "job"))
        path = job.path(*file)
        damage(path, how, where=where)
        (found,) = checked(job)
        assert found.where == str(path).removesuffix(".compact" if how == "gone" else "")


@pytest.mark.parametrize("epoch", [3, NEWEST - 1, NEWEST])
def test_any_flipped_bit_of_a_source_entry_is_found_when_the_checksum_files_are_gone(job: FakeJob, epoch: int) -> None:
    for checksum in (job.folder / "checkpoints" / "spark").rglob(".*.crc"):
        checksum.unlink()
    assert checked(job) == ()
    path = job.path("source", epoch)
    whole = path.read_bytes()
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(bytes(flipped))
        (found,) = checked(job)
        assert found.what == "spark"
        assert found.where.startswith(str(path.parent))
    path.write_bytes(whole)
    assert checked(job) == ()


def test_a_file_that_spark_has_read_and_its_log_has_lost_is_found_by_content(job: FakeJob) -> None:
    path = job.path("source", NEWEST)
    path.with_name(f".{path.name}.crc").unlink()
    path.write_bytes(path.read_bytes().rpartition(b"\n")[0])
    (found,) = checked(job)
    names = sum(number % 3 + 1 for number in range(NEWEST + 1))
    why = f"a source's log is not what was committed, files={names - 1}, files_committed={names}"
    assert (found.where, found.why) == (str(path), why)


def test_what_an_older_checkpoint_alone_needs_is_no_damage_of_a_newer_one(job: FakeJob) -> None:
    older = [("manifest", NEWEST - 1), ("run", NEWEST - 3), ("output", NEWEST - 1), ("source", 0)]
    for path in [job.path(*file) for file in older]:
        damage(path, "gone")
    assert checked(job) == (), "the entry 0 of the source is in the compact one"
    assert {found.what for found in checked(job, NEWEST - 3)} == {"state", "spark"}


def test_without_reading_a_flipped_bit_is_not_seen_but_a_missing_file_and_another_size_are(job: FakeJob) -> None:
    damage(job.path("run", NEWEST), "flipped")
    damage(job.path("source", NEWEST), "flipped")
    assert checked(job, reads=False) == ()
    damage(job.path("run", NEWEST - 1), "cut")
    damage(job.path("output", NEWEST), "gone")
    assert [found.what for found in checked(job, reads=False)] == ["state", "output"]


def test_a_file_that_several_checkpoints_name_is_read_once(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    checksum = ObjectStore.checksum

    def counted(store: ObjectStore, path: str) -> str | None:
        read.append(path)
        return checksum(store, path)

    monkeypatch.setattr(ObjectStore, "checksum", counted)
    verify = verifier(job)
    for epoch in (NEWEST, NEWEST - 1, NEWEST, NEWEST - 2):
        verify.check(Epoch(epoch))
    assert len(read) == len(set(read))
    assert len([path for path in read if path.startswith(paths.RUNS)]) == 5


def test_a_file_that_is_several_runs_is_told_once(job: FakeJob) -> None:
    manifest = job.log.get(Epoch(NEWEST))
    assert manifest is not None
    (operator,) = manifest.operators
    run = operator.runs[-1]
    halves = [
        replace(run, key_group_end=9, clipped_from=(0, 64)),
        replace(run, key_group_start=9, clipped_from=(0, 64)),
    ]
    clipped = replace(manifest, operators=(replace(operator, runs=(*operator.runs[:-1], *halves)),))
    damage(job.path("run", NEWEST), "cut")
    assert len(verifier(job).damages(clipped)) == 1


def test_an_output_that_waits_to_be_published_is_whole_and_a_damaged_one_is_not(job: FakeJob) -> None:
    job.begin(NEWEST + 1)
    manifest = job.manifest(NEWEST + 1)
    (file,) = manifest.outputs
    staged = job.folder / "out" / file.staged_path
    assert verifier(job).damages(manifest) == ()
    damage(staged, "cut")
    (found,) = verifier(job).damages(manifest)
    assert (found.what, found.where) == ("output", str(staged))
    staged.unlink()
    (found,) = verifier(job).damages(manifest)
    assert found.where == str(job.folder / "out" / file.final_path), "neither of the two is there"


def test_an_output_that_is_published_while_it_is_looked_at_is_whole(
    job: FakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an older start, which committed it and is still running."""
    job.begin(NEWEST + 1)
    manifest = job.manifest(NEWEST + 1)
    size = ObjectStore.size

    def publishing(store: ObjectStore, path: str) -> int | None:
        if path == manifest.outputs[0].staged_path:
            monkeypatch.undo()
            job.sinks.publish(manifest.epoch, manifest.outputs)
        return size(store, path)

    monkeypatch.setattr(ObjectStore, "size", publishing)
    assert verifier(job).damages(manifest) == ()


def test_what_the_console_has_printed_is_no_damage(tmp_path: Path) -> None:
    job = FakeJob(tmp_path / "job", 1)
    job.begin(1)
    manifest = job.manifest(1)
    console = ConsoleSink(str(job.folder / "out"), lambda rows, total, name: None)
    verify = Verifier(job.log, {"": console}, True, spark_listing(job.log))
    assert verify.damages(manifest) == ()
    damage(job.folder / "out" / manifest.outputs[0].staged_path, "flipped")
    (found,) = Verifier(job.log, {"": console}, True, spark_listing(job.log)).damages(manifest)
    assert found.why.startswith("an output has changed")
    damage(job.folder / "out" / manifest.outputs[0].staged_path, "gone")
    assert Verifier(job.log, {"": console}, True, spark_listing(job.log)).damages(manifest) == ()


def test_an_entry_of_spark_that_says_another_range_is_damage_and_a_damaged_one_is_not(job: FakeJob) -> None:
    damage(job.path("offsets", NEWEST), "flipped")
    assert checked(job) == (), "it can be written anew"
    damage(job.path("offsets", NEWEST), "gone")
    assert checked(job) == ()
    job.write_spark(paths.spark_offsets_path(Epoch(NEWEST)), offsets_of(NEWEST - 1))
    (found,) = checked(job)
    assert found.why == "Spark's log has another range of input for the epoch than was committed"


def test_a_manifest_of_a_past_that_the_job_has_left_is_none(job: FakeJob) -> None:
    job.log.record_going_back(GoingBack(Generation(2), Epoch(NEWEST - 1), ()))
    manifest, checkpoint = verifier(job).check(Epoch(NEWEST))
    assert manifest is None
    assert [(found.what, found.why) for found in checkpoint.damages] == [
        ("lineage", "the job has gone back from it, and it is not yet deleted, or came late, by=1")
    ]
    assert checked(job, NEWEST - 1) == ()


def test_a_manifest_of_a_newer_format_is_no_damage_but_ends_the_start(job: FakeJob) -> None:
    path = job.path("manifest", NEWEST)
    newer = path.read_bytes().replace(b'"format_version":3', b'"format_version":4').replace(b'"pairs"', b'"couples"')
    path.write_bytes(newer)
    with pytest.raises(NewerFormatError):  # its checksum is wrong, too, but whose checksum that is cannot be told
        verifier(job).check(Epoch(NEWEST))


def test_a_store_that_fails_is_no_damage(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(store: ObjectStore, path: str) -> str | None:
        msg = f"the store answered '503 Slow Down', object={path}"
        raise RetryableError(msg)

    monkeypatch.setattr(ObjectStore, "checksum", failing)
    with pytest.raises(RetryableError):
        verifier(job).check(Epoch(NEWEST))
