"""Over many epochs with a steady set of keys, nothing grows: files, manifests, replicas, what merging rewrites.

The parts are the real ones, on a disk in memory where there is one: what is looked at here are counts, not times. The
times, and ten thousand epochs, are in bench/test_growth.py.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.growth import Keys, PassingKeys, SimulatedJob, Stretch, Work, as_table, run_stretches, updates_of, writes_of

MAX_PARALLELISM = 16
EPOCHS = 240
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def run(folder: Path, backlog: Work, work: Work, *, epochs: int) -> tuple[SimulatedJob, list[Stretch]]:
    job = SimulatedJob(folder, max_parallelism=MAX_PARALLELISM)
    job.run_epoch(backlog, parallelism=1, strategy="sorted")
    stretches = run_stretches(job, work, epochs=epochs, stretch=epochs // 6, parallelism=1)
    return job, stretches


def test_after_many_epochs_over_a_steady_set_of_keys_nothing_has_grown(folder: Path) -> None:
    keys = Keys(2_000, max_parallelism=MAX_PARALLELISM)
    job, stretches = run(folder, writes_of(keys), updates_of(keys, 0.02), epochs=EPOCHS)
    early, late = stretches[1], stretches[-1]  # the first stretch begins with nothing but the backlog
    assert late.runs < early.runs * 1.1, as_table(stretches)
    assert late.manifest_bytes < early.manifest_bytes * 1.1, as_table(stretches)
    for stretch in stretches:
        assert stretch.amplification < 6
        assert max(cost.runs for cost in stretch.costs) <= 24
        assert stretch.footprint.files <= 60, "runs of three checkpoints, their manifests, one start"
        assert stretch.footprint.bytes < 10 * 2_000 * 31
        assert stretch.footprint.replica_bytes < 10 * 2_000 * 31 + 500_000, "and the logs of RocksDB"
    assert len(job.log.store.list("generations")) == 1


def test_keys_that_come_and_go_leave_nothing_behind(folder: Path) -> None:
    passing = PassingKeys(20, max_parallelism=MAX_PARALLELISM, epochs=10)
    job, stretches = run(folder, passing, passing, epochs=180)
    entries = [sum(run.entries for run in manifest.operators[0].runs) for manifest in job.manifests]
    assert max(entries) < 10 * 20 * 2 * 12, "deleted keys are forgotten"
    assert stretches[-1].runs < stretches[1].runs * 1.2
    assert all(stretch.amplification < 6 for stretch in stretches)


def test_the_runs_of_former_parallelisms_are_merged_away(folder: Path) -> None:
    keys = Keys(1_000, max_parallelism=MAX_PARALLELISM)
    job = SimulatedJob(folder, max_parallelism=MAX_PARALLELISM)
    job.run_epoch(writes_of(keys), parallelism=4, strategy="sorted")
    work = updates_of(keys, 0.05)
    for parallelism in (4, 1, 3, 2):
        written = {run.path for run in job.runs}
        for _ in range(40):
            job.run_epoch(work, parallelism=parallelism)
        assert len(job.runs) <= 20 * parallelism
        assert not written & {run.path for run in job.runs}, "all of an earlier parallelism have been merged"
        assert not [run for run in job.runs if run.clipped_from]
