"""The contract of every source and sink, with real parts outside: what a reader finds is the answer of plain Python.

* in every mode, whatever was there before the start and came after it;
* after the driver died before and after a commit, after an epoch that Spark hands over again, after an older
  checkpoint;
* and the job goes live although records arrive all the time.

Each check makes a rig of its own over a connector; which connectors there are is for the test files to say.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from mixedmode.crash_points import CrashPoint
from mixedmode.driver.events import EpochStarted, Event, Flipped
from mixedmode.driver.run import Until
from mixedmode.job import Job
from tests.connectors.rigs import Rig, records
from tests.differential.oracle import differences
from tests.faults.in_process import dies_at
from tests.harness import Feed, ManualClock, Recording, manifests, run

NewRig = Callable[[Path], Rig]  # in a folder that is not there yet


def start(rig: Rig, spark: SparkSession, mode: str = "mixed", *, feed: Sequence[Feed] = ()) -> Recording:
    """One start in this process, until nothing is new."""
    return run(Job.from_file(rig.job_file(mode)), spark, until=Until.IDLE, feed=feed, clock=ManualClock())


def check_answer(rig: Rig) -> None:
    found = differences(rig.answer(), rig.table())
    assert not found, found


def it_gives_the_answer_in_batch_mode(new_rig: NewRig, spark: SparkSession, folder: Path) -> None:
    """Mixed mode gives it in the checks below."""
    one = new_rig(folder / "job")
    for number in range(3):
        one.put(records(number))
    start(one, spark, "batch")
    check_answer(one)


def it_gives_the_answer_in_streaming_mode(new_rig: NewRig, spark: SparkSession, folder: Path) -> None:
    """Its epochs are like those of mixed mode after the flip."""
    one = new_rig(folder / "job")
    one.put(records(0))
    recording = start(one, spark, "streaming", feed=[partial(one.put, records(n)) for n in (1, 2)])
    assert len(recording.committed) >= 3, "the backlog, and two live epochs"
    check_answer(one)


def it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint(
    new_rig: NewRig, spark: SparkSession, folder: Path
) -> None:
    """The driver dies before the backlog's commit, where records are read again although more is there by then; and
    after a live epoch's commit, which another start has to publish.
    """
    one = new_rig(folder / "job")
    one.put(records(0))
    die(one, spark, "before-manifest", 0)
    assert not manifests(one.checkpoints)
    one.put(records(1))
    start(one, spark)
    check_answer(one)

    one.put(records(2))
    late = manifests(one.checkpoints)[-1].epoch + 1
    die(one, spark, "after-manifest", late)
    one.put(records(3))
    published = [event.epoch for event in start(one, spark).published_late]
    assert published == [late], "an epoch that was committed already"
    check_answer(one)

    newest = manifests(one.checkpoints)[-1].epoch
    hand_over_again(one, newest)
    start(one, spark)
    assert manifests(one.checkpoints)[-1].epoch == newest, "it was committed already"
    check_answer(one)

    lose_checkpoint(one, newest)
    one.put(records(4))
    (went_back,) = start(one, spark).went_back
    assert went_back.to < newest
    check_answer(one)


def die(one: Rig, spark: SparkSession, point: CrashPoint, epoch: int) -> None:
    dies_at(Job.from_file(one.job_file()), spark, point, epoch)


def it_goes_live_although_more_arrives_all_the_time(new_rig: NewRig, spark: SparkSession, folder: Path) -> None:
    one = new_rig(folder / "job")
    one.put(records(0, 2_000))
    first_is_in, recording = threading.Event(), Arriving()

    def keep_putting() -> None:
        one.put(records(1))
        first_is_in.set()
        recording.has_begun.wait()
        for piece in range(2, 400):
            one.put(records(piece))
            recording.more_is_in.set()
            if recording.is_live.wait(0.3):  # many more files would take long to read
                break

    producer = threading.Thread(target=keep_putting)
    producer.start()
    assert first_is_in.wait(60)
    try:
        run(Job.from_file(one.job_file()), spark, until=Until.IDLE, clock=ManualClock(), observer=recording)
    finally:
        recording.has_begun.set()
        recording.is_live.set()
        producer.join()
    assert [flip.after_epoch for flip in recording.flips] == [0], "the backlog is what was there at the start"
    assert len(recording.committed) > 1, "more came before the job was live"
    start(one, spark)
    check_answer(one)


class Arriving(Recording):
    """A recording that lets more arrive while the first epoch runs, and says when the job is live."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.more_is_in, self.is_live = threading.Event(), threading.Event(), threading.Event()

    def tell(self, event: Event) -> None:
        super().tell(event)
        if isinstance(event, EpochStarted) and not self.has_begun.is_set():
            self.has_begun.set()
            assert self.more_is_in.wait(60)
        if isinstance(event, Flipped):
            self.is_live.set()


def hand_over_again(one: Rig, epoch: int) -> None:
    """Take Spark's note away that the epoch is done."""
    for name in (f"{epoch}", f".{epoch}.crc"):
        (one.checkpoints / "spark" / "commits" / name).unlink(missing_ok=True)


def lose_checkpoint(one: Rig, epoch: int) -> None:
    """Damage its manifest beyond reading."""
    (path,) = [path for path in (one.checkpoints / "manifests").iterdir() if int(path.stem.split("-")[0]) == epoch]
    path.write_bytes(b"{")
