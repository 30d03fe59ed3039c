"""A verification reads the table of the epoch that it replays, whatever the job does meanwhile."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixedmode.cli.compact import compaction_report
from mixedmode.config import JobSpec
from mixedmode.config.load import load_job
from mixedmode.driver import epochs, verification
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.driver.verification import Verified, verify_job
from mixedmode.errors import RetryableError
from mixedmode.plan.keyed_operators import Where
from mixedmode.sinks import publish
from mixedmode.sinks.table import table_at
from tests.driver.test_pausing import Paused, file_of
from tests.harness import ManualClock
from tests.local_engine import LocalEngine, World, local_session

LATER_MS = 3_600_000  # longer than a lease lasts


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paused:
    """A job whose replay runs without Spark, and that has read one file."""
    monkeypatch.setattr(verification, "input_files", lambda *_: {})
    monkeypatch.setattr(publish, "_LOOKS", 0)
    job = Paused(tmp_path)
    replays(monkeypatch, lambda: None)
    go_on(job)
    return job


def go_on(job: Paused, count: int = 0) -> None:
    """Run a job over some more files, each in an epoch of its own, long after all leases have ended."""
    clock = ManualClock(time.time_ns() // 1_000_000 + LATER_MS)
    job.run(lambda _: None, until=Until.IDLE, clock=clock)
    for _ in range(count):
        job.world.files[str(len(job.world.files))] = file_of(2)
        job.run(lambda _: None, until=Until.IDLE, clock=clock)


def replays(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let a replay read the first file, while something else happens."""

    def replay(spec: JobSpec, where: Where, options: RunOptions) -> None:
        meanwhile()
        session = local_session(World({"0": file_of(1)}))
        run_job(spec, where, replace(options, session=session, engine=LocalEngine))

    monkeypatch.setattr("mixedmode.driver.run.run_job", replay)


def verified(job: Paused, **options: Any) -> Verified:
    file = job.folder.parent / "job.yaml"
    file.write_text(job.job.to_yaml())
    return verify_job(load_job(file), **options)


def test_a_replay_may_take_longer_than_a_lease(job: Paused, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile the job drops the checkpoint, and a compaction drops the rows of its epoch."""

    def meanwhile() -> None:
        go_on(job, count=12)
        compaction_report(job.job.spec, target_bytes=1_000_000, newest_only=True)

    replays(monkeypatch, meanwhile)
    found = verified(job)
    assert (found.epoch, found.are_equal) == (0, True)
    assert 0 not in job.epochs


def test_rows_that_are_committed_and_not_published_are_told(job: Paused, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver was killed in between. The table was said to lack them, as if it were wrong."""

    def fails(*_: object) -> None:
        msg = "killed"
        raise RetryableError(msg)

    with monkeypatch.context() as killed:
        killed.setattr(epochs, "publish_committed", fails)
        with pytest.raises(RetryableError, match="killed"):
            go_on(job, count=1)
    with pytest.raises(RetryableError, match="rows of the newest checkpoint are not published yet, so the table lacks"):
        verified(job)


def test_a_table_of_a_checkpoint_that_is_dropped_meanwhile_is_not_compared(
    job: Paused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(path: str, epoch: int) -> object:
        go_on(job, count=12)
        return table_at(path, epoch)

    monkeypatch.setattr(verification, "table_at", slow)
    with pytest.raises(RetryableError, match="the job has dropped or left the checkpoint while its table was read"):
        verified(job, has_lease=False)
