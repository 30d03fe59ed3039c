"""State from elsewhere put into an empty checkpoint folder: what is there then, what is refused, and one cut short."""

from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.imported import Imported, begin_import, commit_import, give_up_import, is_imported
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, JobIdentity, OperatorState, RunFile
from mixedmode.driver.recovery import find_checkpoint
from mixedmode.errors import CorruptStateError, FencedError, InvalidJobError, RetryableError
from mixedmode.sinks import Sinks
from tests.checkpoint.examples import IDENTITY, a_manifest
from tests.checkpoint.test_restore import cut_after

OFFSETS, COMMITS = paths.spark_offsets_path(Epoch(7)), paths.spark_commits_path(Epoch(7))
DATA = b"a sorted run"


def given() -> Imported:
    manifest = replace(a_manifest(7, generation=0), operators=(), previous=None, parallelism=1, pairs=0)
    entries = {
        paths.SPARK_METADATA: b'{"id":"x"}',
        OFFSETS: manifest.offsets.encode(),
        paths.spark_offsets_path(Epoch(6)): manifest.offsets.encode(),
        COMMITS: b'v1\n{"nextBatchWatermarkMs":0}',
    }
    return Imported(IDENTITY, manifest, entries)


def import_all(log: CheckpointLog, what: Imported) -> None:
    """An import of one step whose state is one run."""
    if is_imported(log, what):
        return
    generation = begin_import(log, what)
    path = paths.run_path("step-1", Epoch(7), 0, paths.attempt(generation, "a"))
    log.store.put(path, DATA)
    run = RunFile(path, 0, len(DATA), 1, 0, 128, checksum_of([DATA]))
    commit_import(log, what, generation, (OperatorState("step-1", {}, (run,), 1),))


def test_the_folder_is_that_of_a_job_after_the_batch(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    import_all(log, given())
    found = find_checkpoint(log, Sinks({}), reads=True).whole
    assert found is not None
    assert (found.epoch, found.previous, found.output_names) == (7, None, ("",))
    assert log.read_identity() == IDENTITY
    assert {path: log.store.get(path) for path in given().entries} == dict(given().entries)


def test_importing_again_finds_it_done(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    import_all(log, given())
    files = log.store.list()
    import_all(log, given())
    assert log.store.list() == files


def test_another_import_is_refused(tmp_path: Path) -> None:
    log, other = CheckpointLog(ObjectStore(tmp_path)), given()
    import_all(log, given())
    other = replace(other, manifest=replace(other.manifest, created_ms=1))
    with pytest.raises(InvalidJobError, match="holds something of another run"):
        import_all(log, other)


@pytest.mark.parametrize(("path", "data"), [(OFFSETS, b"v1\n{}\n7"), (paths.spark_offsets_path(Epoch(9)), b"v1")])
def test_the_log_of_another_query_is_refused_and_left(tmp_path: Path, path: str, data: bytes) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    log.store.put(path, data)
    with pytest.raises(InvalidJobError, match=f"found={path}"):
        import_all(log, given())
    assert log.store.get(path) == data
    assert len(log.store.list()) == 1


def test_the_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    log.create_identity(JobIdentity("another", 128, {}))
    with pytest.raises(InvalidJobError, match=r"found=job\.json"):
        import_all(log, given())


def test_an_import_that_is_given_up_leaves_a_folder_in_which_a_job_begins(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    generation = begin_import(log, given())
    log.store.put(paths.run_path("step-1", Epoch(7), 0, paths.attempt(generation, "a")), DATA)
    give_up_import(log, given(), generation)
    assert [path for path, _ in log.store.list()] == [paths.generation_path(generation)]
    assert find_checkpoint(log, Sinks({}), reads=True).whole is None


def test_an_import_that_is_given_up_leaves_what_a_newer_one_has_put(tmp_path: Path) -> None:
    """They are the same entries of Spark's log: without them, the job would read its input from the beginning."""
    log = CheckpointLog(ObjectStore(tmp_path))
    older, newer = begin_import(log, given()), begin_import(log, given())
    give_up_import(log, given(), older)
    commit_import(log, given(), newer, ())
    assert {path: log.store.get(path) for path in given().entries} == dict(given().entries)
    assert find_checkpoint(log, Sinks({}), reads=True).whole is not None


def test_a_start_of_the_job_meanwhile_fences_the_import(tmp_path: Path) -> None:
    log = CheckpointLog(ObjectStore(tmp_path))
    generation = begin_import(log, given())
    assert log.claim_generation() == Generation(generation + 1)
    with pytest.raises(FencedError, match="while state of Spark was imported"):
        commit_import(log, given(), generation, ())
    assert log.epochs() == ()


def test_it_is_done_again_wherever_it_was_cut_and_a_start_over_half_of_it_stops(tmp_path: Path) -> None:
    for number in range(20):
        log = CheckpointLog(ObjectStore(tmp_path / f"cut-{number}"))
        with pytest.MonkeyPatch.context() as patch:
            cut_after(number, patch)
            try:
                import_all(log, given())
            except RetryableError:
                pass
            else:
                assert number > 5
                break
        if not log.epochs() and log.store.exists(OFFSETS):
            with pytest.raises(CorruptStateError):  # it would read its input from the beginning
                find_checkpoint(log, Sinks({}), reads=True)
        import_all(log, given())
        found = log.latest()
        assert found is not None
        assert [run.checksum for run in found.operators[0].runs] == [checksum_of([DATA])]
        assert {path: log.store.get(path) for path in given().entries} == dict(given().entries)
    else:
        pytest.fail("every import was cut")
