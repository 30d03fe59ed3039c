"""State is read from every place that holds a checkpoint, and after everything that changes its files."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mixedmode import open_state, read_state
from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.queryable.parts import Moment
from mixedmode.queryable.views import views_of
from tests.queryable.jobs import Row, RunningJob, rows_of
from tests.queryable.test_reads import EPOCHS, counts, row, totals

SERIAL = itertools.count()
STEP = "aggregate-1"


@pytest.fixture
def job(tmp_path: Path) -> RunningJob:
    job = RunningJob(tmp_path, counts)
    for rows in EPOCHS:
        job.epoch(rows)
    return job


def copied(source: ObjectStore, target: ObjectStore) -> None:
    for path, _ in source.list():
        target.put_new(path, source.get(path) or b"")


def test_state_is_read_from_an_object_store(job: RunningJob) -> None:
    store = ObjectStore(f"memory:///queryable-{next(SERIAL)}")
    copied(job.log.store, store)
    with open_state(store.url) as state:
        assert rows_of(state.read(STEP).table) == totals(EPOCHS)
        assert state.read(STEP, keys=["a"]).table.num_rows == 1
    assert rows_of(read_state(store.url, STEP, epoch=1)) == totals(EPOCHS[:2])
    assert store.list("leases") == []


def test_state_is_read_from_a_savepoint_without_a_lease(job: RunningJob, tmp_path: Path) -> None:
    place = ObjectStore(tmp_path / "savepoint")
    create_savepoint(job.log, place, now_ms=0)
    before = place.list()
    assert rows_of(read_state(tmp_path / "savepoint", STEP)) == totals(EPOCHS)
    assert place.list() == before


def random_epochs(rng: random.Random) -> Iterator[tuple[list[Row], int]]:
    for minute in range(20):
        keys = rng.sample([None, *(f"key {number}" for number in range(30))], rng.randint(0, 12))
        rows = [
            row(key, rng.choice([None, rng.randint(-5, 5)]), minute) for key in keys for _ in range(rng.randint(1, 3))
        ]
        yield rows, rng.choice([1, 2, 3, 4, 8])


@pytest.mark.parametrize("seed", [1, 2])
def test_every_epoch_is_read_exactly_through_merges_and_rescales(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    job = RunningJob(tmp_path, counts, fan_in=2)
    epochs = []
    for rows, size in random_epochs(rng):
        job.epoch(rows, parallelism=size)
        epochs.append(rows)
    assert any(run.merged_from for operator in job.manifests[-1].operators for run in operator.runs), "runs were merged"
    assert any(run.clipped_from for one in job.manifests for operator in one.operators for run in operator.runs)
    for epoch in rng.sample(range(len(epochs)), 4):
        expected = totals(epochs[: epoch + 1])
        with open_state(job.checkpoints, epoch=epoch) as state:
            assert rows_of(state.read(STEP).table) == expected
            for each in rng.sample(expected, min(3, len(expected))):
                assert state.read(STEP, keys=[each["k"]]).table.to_pylist() == [each]


def test_a_point_read_opens_only_the_runs_of_its_key_group(job: RunningJob) -> None:
    with open_state(job.checkpoints) as state:
        state.read(STEP, keys=["a"])
        opened = state._entries._open  # nothing else shows it
        assert len(opened) == 1
        state.read(STEP)
        assert len(opened) == 2


def test_a_newest_checkpoint_that_the_job_has_left_does_not_count(job: RunningJob) -> None:
    job.log.store.put_new("went-back/0000000002-0000000001.json", b"")
    assert rows_of(read_state(job.checkpoints, STEP)) == totals(EPOCHS[:2])
    with pytest.raises(InvalidJobError, match="no checkpoint of this epoch"):
        read_state(job.checkpoints, STEP, epoch=2)


def test_a_run_that_is_gone_or_cut_is_an_error_and_never_a_missing_key(job: RunningJob) -> None:
    (run, *_) = job.manifests[-1].operators[0].runs
    file = job.checkpoints / run.path
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1])
    with pytest.raises(CorruptStateError, match="another size"):
        read_state(job.checkpoints, STEP)
    file.unlink()
    with pytest.raises(RetryableError, match="a file of the state is gone"):
        read_state(job.checkpoints, STEP)


def test_a_manifest_without_a_description_is_refused_with_what_to_do() -> None:
    with pytest.raises(CorruptStateError, match="Start the job once more"):
        views_of({"states": [{"state_id": 0, "name": "aggregate", "fields": []}]}, Moment(None, None))
