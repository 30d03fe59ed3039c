"""Failures outside that a job tolerates: the epoch is run again within the run, nothing is lost, doubled or hidden."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint import paths, retention
from mixedmode.checkpoint.decide import CommitPermit
from mixedmode.checkpoint.gc import drop_checkpoint
from mixedmode.checkpoint.log import AlreadyCommitted, CheckpointLog, CommitOutcome, Committed
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Generation, Manifest
from mixedmode.clock import SystemClock
from mixedmode.driver import epochs
from mixedmode.errors import CorruptStateError, FencedError, RetryableError
from mixedmode.executor.spark import SparkExecutor
from mixedmode.job import Job, Sink, Source
from mixedmode.sinks import Sinks
from tests.checkpoint.examples import a_manifest
from tests.harness import SPARK, Recording, manifests, output_rows, run, write_json

pytestmark = pytest.mark.spark

AWAY = RetryableError("the store is away. Wait for it.")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_json(tmp_path / "in", "1.json", [{"k": "a", "v": 1}, {"k": "b", "v": 2}])
    return tmp_path


def settings(base: Path, **given: Any) -> Job:
    return Job(
        "tolerance",
        sources={"t": Source.json(base / "in", schema="k string, v bigint")},
        mode="mixed",
        parallelism=2,
        max_parallelism=8,
        checkpoint_dir=base / "checkpoints",
        checkpoint_interval="10ms",
        spark=SPARK,
        **given,
    )


def job(base: Path, *, tolerable: int) -> Job:
    tolerant = settings(base, tolerable_failed_checkpoints=tolerable)
    return tolerant.key_by("k").aggregate(s="sum(v)").write(Sink.parquet(base / "out"))


def failing(times: int, real: Callable[..., Any], error: Exception = AWAY) -> Callable[..., Any]:
    """`real`, after it has failed so often."""
    left = [error] * times

    def call(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return real(*arguments, **named)

    return call


def test_an_epoch_that_failed_as_often_as_is_tolerated_is_committed(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkExecutor, "run_epoch", failing(2, SparkExecutor.run_epoch))
    observer = run(job(base, tolerable=2), spark)
    assert [(event.epoch, event.failures, event.tolerable, event.reason) for event in observer.failed] == [
        (0, 1, 2, str(AWAY)),
        (0, 2, 2, str(AWAY)),
    ]
    assert [manifest.records_in for manifest in manifests(base / "checkpoints")] == [2]
    assert output_rows(base / "out") == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]


def test_one_failure_more_ends_the_run_and_the_next_start_goes_on(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SparkExecutor, "run_epoch", failing(3, SparkExecutor.run_epoch))
        observer = Recording()
        with pytest.raises(RetryableError, match="the store is away"):
            run(job(base, tolerable=2), spark, observer=observer)
    assert [event.failures for event in observer.failed] == [1, 2]
    assert not manifests(base / "checkpoints")
    run(job(base, tolerable=0), spark)
    assert output_rows(base / "out") == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]


def test_damage_is_never_tolerated(spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        SparkExecutor, "run_epoch", failing(1, SparkExecutor.run_epoch, CorruptStateError("a run is damaged."))
    )
    observer = Recording()
    with pytest.raises(CorruptStateError, match="a run is damaged"):
        run(job(base, tolerable=9), spark, observer=observer)
    assert not observer.failed


def test_a_commit_whose_answer_was_lost_is_found_instead_of_repeated(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectStore.put_new
    lost: list[str] = []

    def losing_an_answer(store: ObjectStore, path: str, data: bytes) -> bool:
        is_done = real(store, path, data)
        if path == paths.manifest_path(Epoch(0)) and not lost:
            lost.append(path)
            raise AWAY
        return is_done

    monkeypatch.setattr(ObjectStore, "put_new", losing_an_answer)
    observer = run(job(base, tolerable=1), spark)
    assert len(observer.failed) == 1
    assert [event.epoch for event in observer.started] == [0], "its stages ran once"
    assert [event.records for event in observer.committed] == [2]
    assert output_rows(base / "out") == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]


def test_a_publication_that_failed_is_repeated_without_its_epoch(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sinks, "publish", failing(1, Sinks.publish))
    observer = run(job(base, tolerable=1), spark)
    assert (len(observer.failed), len(observer.started), len(observer.committed)) == (1, 1, 1)
    assert output_rows(base / "out") == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]


def test_an_old_checkpoint_that_could_not_be_dropped_is_dropped_by_the_repeat(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "drop_checkpoint", failing(1, drop_checkpoint))
    keeping_one = settings(base, tolerable_failed_checkpoints=1, checkpoints_retained=1)
    keeping_one = keeping_one.key_by("k").aggregate(s="sum(v)").write(Sink.parquet(base / "out"))
    observer = run(keeping_one, spark, feed=[lambda: write_json(base / "in", "2.json", [{"k": "a", "v": 3}])])
    assert [event.epoch for event in observer.failed] == [1]
    assert [manifest.epoch for manifest in manifests(base / "checkpoints")] == [1]
    assert output_rows(base / "out") == [{"k": "a", "s": 4}, {"k": "b", "s": 2}]


def test_a_start_that_commits_long_after_it_was_overtaken_publishes_nothing(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one is past the epoch, and has dropped its checkpoint, so that the name is free again."""
    real = CheckpointLog.commit

    def commit_late(log: CheckpointLog, manifest: Manifest, permit: CommitPermit) -> CommitOutcome:
        outcome = real(log, manifest, permit)
        later = replace(manifest, epoch=Epoch(5), previous=Epoch(4))
        assert real(log, later, replace(permit, epoch=Epoch(5))) == Committed(later)
        return outcome

    monkeypatch.setattr(CheckpointLog, "commit", commit_late)
    with pytest.raises(FencedError) as caught:
        run(job(base, tolerable=3), spark)
    assert str(caught.value) == (
        "a newer start of this job has taken over its checkpoint folder and is past this epoch, so this one stops "
        "without publishing it. Nothing is lost: the other one goes on. If both were started by mistake, stop the one "
        "that is not wanted. epoch=0, latest_committed=5, own_generation=1"
    )
    assert not list((base / "out").glob("part-*"))


def test_a_start_whose_epoch_an_older_one_has_committed_over_another_range_stops() -> None:
    """Spark's log has its own range: the next epoch would begin where that one ends."""
    mine = a_manifest(0, generation=2)
    older = replace(mine, generation=Generation(1), offsets=f"{mine.offsets} and more")
    log = SimpleNamespace(check_newest=lambda _, own: own, commit=lambda *_: AlreadyCommitted(older))
    context: Any = SimpleNamespace(log=log, generation=Generation(2), clock=SystemClock())
    with pytest.raises(RetryableError, match=r"It goes on after that epoch\. epoch=0, generation=1$"):
        epochs.EpochRunner(context, [])._commit(mine)


def test_a_stop_is_not_kept_waiting_by_repeats(
    spark: SparkSession, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = job(base, tolerable=10**9)

    def fail_and_stop(runner: epochs.EpochRunner, *_: object) -> DataFrame:
        runner._context.stop.set()
        raise AWAY

    monkeypatch.setattr(epochs.EpochRunner, "_run_stages", fail_and_stop)
    with pytest.raises(RetryableError, match="the store is away"):
        run(stopping, spark)


def test_a_live_epoch_that_takes_too_long_is_given_up_and_counts_as_failed(spark: SparkSession, base: Path) -> None:
    limited = settings(base, tolerable_failed_checkpoints=1, checkpoint_timeout="5s")
    waiting = limited.key_by("k").process(
        "tests.driver.functions:BlocksOnce",
        args={"marker": str(base / "blocked"), "key": "c"},
        output="k string, n bigint",
    )
    slow = waiting.write(Sink.parquet(base / "out"))
    observer = run(slow, spark, feed=[lambda: write_json(base / "in", "2.json", [{"k": "c", "v": 3}])])
    (failed,) = observer.failed
    assert (failed.epoch, failed.failures) == (1, 1)
    assert failed.reason == (
        "an epoch took longer than execution.checkpointing.timeout, and was given up; nothing of it is committed. "
        "Raise the limit, give the job more subtasks, or limit what an epoch takes (max-bytes-per-epoch of a source), "
        "then start the job again: it resumes. timeout=5s"
    )
    assert sorted(row["k"] for row in output_rows(base / "out")) == ["a", "b", "c"]
