"""The contract of every source and sink, with real parts outside: what a reader finds is the answer of plain Python.

* in every mode, whatever was there before the start and came after it;
* after kills before and after a commit, after an epoch that Spark hands over again, after an older checkpoint;
* and the job goes live although records arrive faster than it takes them.
"""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.job import Job
from mixedmode.runtime.run import Until
from tests.connectors.rigs import PLAIN, RIGS, SOURCES, Rig, records, rig
from tests.differential.oracle import differences
from tests.faults.processes import killed_at
from tests.harness import Feed, ManualClock, Recording, manifests, run

pytestmark = [pytest.mark.spark, pytest.mark.faults]

every_connector = pytest.mark.parametrize(("source", "sink"), RIGS, ids=[f"{a}-to-{b}" for a, b in RIGS])


def start(rig: Rig, spark: SparkSession, mode: str = "mixed", *, feed: Sequence[Feed] = ()) -> Recording:
    """One start in this process, until nothing is new."""
    return run(Job.from_yaml(rig.job_file(mode)), spark, until=Until.IDLE, feed=feed, clock=ManualClock())


def is_right(rig: Rig) -> bool:
    assert not differences(rig.answer(), rig.table())
    return True


@every_connector
def test_every_mode_gives_the_answer(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for mode in ("batch", "streaming", "mixed"):
        one = rig(tmp_path / mode, request, source, sink)
        one.put(records(0))
        if mode == "batch":
            one.put(records(1))
            one.put(records(2))
            start(one, spark, mode)
        else:
            recording = start(one, spark, mode, feed=[partial(one.put, records(n)) for n in (1, 2)])
            assert len(recording.committed) >= 3, "the backlog, and two live epochs"
        assert is_right(one), mode


@every_connector
def test_kills_an_epoch_again_and_an_older_checkpoint(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    one = rig(tmp_path / "job", request, source, sink)
    one.put(records(0))
    if sink == PLAIN:  # what a source gave is given again, although more is there by then
        killed_at(one.job_file(), "before-manifest", 0)
        assert not manifests(one.checkpoints)
        one.put(records(1))
    start(one, spark)
    assert is_right(one)

    one.put(records(2))
    if source == PLAIN:  # what is committed is published once, by whichever start
        killed_at(one.job_file(), "after-manifest", manifests(one.checkpoints)[-1].epoch + 1)
        one.put(records(3))
    start(one, spark)
    assert is_right(one)

    newest = manifests(one.checkpoints)[-1].epoch
    hand_over_again(one, newest)
    start(one, spark)
    assert manifests(one.checkpoints)[-1].epoch == newest, "it was committed already"
    assert is_right(one)

    lose_checkpoint(one, newest)
    (went_back,) = start(one, spark).went_back
    assert went_back.to < newest
    assert is_right(one)
    one.put(records(4))
    start(one, spark)
    assert is_right(one)


@pytest.mark.parametrize("source", SOURCES)
def test_the_job_goes_live_although_more_arrives_all_the_time(
    source: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    one = rig(tmp_path / "job", request, source, "json")
    one.put(records(0, 2_000))
    is_live, first_is_in = threading.Event(), threading.Event()

    def keep_putting() -> None:
        piece = 1
        while not is_live.is_set() and piece < 400:
            one.put(records(piece))
            first_is_in.set()
            piece += 1

    recording = LiveEvent(is_live)
    producer = threading.Thread(target=keep_putting)
    producer.start()
    assert first_is_in.wait(60)
    try:
        run(Job.from_yaml(one.job_file()), spark, until=Until.IDLE, clock=ManualClock(), observer=recording)
    finally:
        is_live.set()
        producer.join()
    assert [flip.after_epoch for flip in recording.flips] == [0], "the backlog is what was there at the start"
    start(one, spark)
    assert is_right(one)


class LiveEvent(Recording):
    """A recording that says when the job is live."""

    def __init__(self, is_live: threading.Event) -> None:
        super().__init__()
        self._is_live = is_live

    def on_flip(self, event: object) -> None:
        super().on_flip(event)  # type: ignore[arg-type]
        self._is_live.set()


def hand_over_again(one: Rig, epoch: int) -> None:
    """Take Spark's note away that the epoch is done."""
    for name in (f"{epoch}", f".{epoch}.crc"):
        (one.checkpoints / "spark" / "commits" / name).unlink(missing_ok=True)


def lose_checkpoint(one: Rig, epoch: int) -> None:
    """Damage its manifest beyond reading."""
    (path,) = [path for path in (one.checkpoints / "manifests").iterdir() if int(path.stem.split("-")[0]) == epoch]
    path.write_bytes(b"{")
