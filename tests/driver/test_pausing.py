"""A paused job begins no epoch, keeps its position, also over a restart, and goes on when it is resumed."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.pause import Pause, PauseRecord
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver import pausing
from mixedmode.driver.events import EpochCommitted, Event, PhaseBegan
from mixedmode.driver.pausing import Pauses, ask_to_pause, ask_to_resume
from mixedmode.driver.rescale_requests import ask_to_rescale
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.cli.shell import command, lines
from tests.harness import ManualClock, manifests
from tests.local_engine import LocalEngine, World, local_session

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC"))])


def file_of(rows: int) -> pa.Table:
    return pa.Table.from_pylist([{"k": "a", "at": datetime(2001, 1, 1, tzinfo=UTC)}] * rows, SCHEMA)


class Paused:
    """A job without Spark, which runs in the thread of the test."""

    def __init__(self, folder: Path) -> None:
        (folder / "in").mkdir()
        source = Source.parquet(folder / "in", schema="k string, at timestamp", event_time="at")
        job = Job("counts", sources={"t": source}, mode="mixed", parallelism=1, checkpoint_dir=folder / "checkpoints")
        self.job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(folder / "out"))
        self.folder = folder / "checkpoints"
        self.world = World({"0": file_of(1)})
        self.stop = threading.Event()
        self.seen: list[str] = []

    def run(
        self,
        on: Callable[[str], Any],
        *,
        until: Until = Until.STOPPED,
        command: str = "epoch",
        clock: ManualClock | None = None,
    ) -> list[str]:
        """Run the job, and return its phases and epochs.  on: called with each of them."""
        self.seen, self.stop = [], threading.Event()

        def observe(event: Event) -> None:
            if isinstance(event, PhaseBegan | EpochCommitted):
                self.seen.append(event.phase if isinstance(event, PhaseBegan) else f"epoch {event.epoch}")
                on(self.seen[-1])

        session = local_session(self.world, lambda: command)
        options = RunOptions(until, [observe], clock or ManualClock(), self.stop, session=session, engine=LocalEngine)
        run_job(self.job.spec, self.job.where, options)
        return self.seen

    @property
    def epochs(self) -> list[int]:
        return [manifest.epoch for manifest in manifests(self.folder)]


@pytest.fixture
def paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paused:
    monkeypatch.setattr(pausing, "HOLD_SECONDS", 0.001)
    return Paused(tmp_path)


def test_a_live_job_holds_its_next_epoch_until_it_is_resumed(paused: Paused) -> None:
    def on(seen: str) -> None:
        match seen:
            case "live":
                paused.world.files.setdefault("1", file_of(2))
                if "paused" not in paused.seen:
                    assert ask_to_pause(paused.job.spec).startswith("the job pauses after the epoch under way")
            case "paused":
                assert paused.epochs == [0], "the input of the next epoch is there, and waits"
                assert ask_to_resume(paused.job.spec) == "the job goes on from its position"
            case "epoch 1":
                paused.stop.set()
            case _:
                pass

    assert paused.run(on) == ["starting", "catching up", "epoch 0", "live", "paused", "live", "epoch 1", "ended"]
    assert [manifest.records_in for manifest in manifests(paused.folder)] == [1, 2]


def test_a_job_without_input_tells_that_it_is_paused(paused: Paused) -> None:
    def on(seen: str) -> None:
        if seen == "live" and "paused" not in paused.seen:
            ask_to_pause(paused.job.spec)
        elif seen == "paused":
            ask_to_resume(paused.job.spec)
        elif seen == "live":
            paused.stop.set()

    expected = ["starting", "catching up", "epoch 0", "live", "paused", "live", "ended"]
    assert paused.run(on, command="idle") == expected


def test_a_paused_job_can_be_stopped_and_is_still_paused_after_the_next_start(paused: Paused) -> None:
    def stop_when_paused(seen: str) -> None:
        if seen == "live":
            paused.world.files["1"] = file_of(2)
            ask_to_pause(paused.job.spec)
        elif seen == "paused":
            paused.stop.set()

    assert paused.run(stop_when_paused)[-2:] == ["paused", "ended"]
    assert paused.run(stop_when_paused) == ["starting", "catching up", "paused", "ended"]
    assert paused.epochs == [0]
    ask_to_resume(paused.job.spec)
    assert paused.run(lambda _seen: None, until=Until.IDLE)[-2:] == ["live", "ended"]
    assert sum(manifest.records_in for manifest in manifests(paused.folder)) == 3


def test_the_end_of_the_input_waits_too(paused: Paused) -> None:
    def on(seen: str) -> None:
        if seen == "live" and "paused" not in paused.seen:
            ask_to_pause(paused.job.spec)
        elif seen == "paused":
            assert not manifests(paused.folder)[-1].is_final
            ask_to_resume(paused.job.spec)

    assert "paused" in paused.run(on, until=Until.DRAINED)
    assert manifests(paused.folder)[-1].is_final


def test_a_job_whose_input_has_ended_takes_no_requests(paused: Paused) -> None:
    paused.run(lambda _: None, until=Until.DRAINED)
    for ask in (ask_to_pause, lambda spec: ask_to_rescale(spec, 2)):
        with pytest.raises(InvalidJobError, match="the input of this job has ended for good"):
            ask(paused.job.spec)
    assert ask_to_resume(paused.job.spec) == "the job was not paused"


def test_requests_say_what_happens_and_a_damaged_one_still_counts(paused: Paused) -> None:
    record = PauseRecord(ObjectStore(paused.folder))
    with pytest.raises(InvalidJobError, match="the job has never been started with it"):
        ask_to_pause(paused.job.spec)
    paused.run(lambda _seen: None, until=Until.IDLE)
    assert ask_to_resume(paused.job.spec) == "the job was not paused"
    ask_to_pause(paused.job.spec, clock=ManualClock(5000))
    assert record.read() == Pause(5000)
    assert ask_to_pause(paused.job.spec) == "the job was already asked to pause"
    (paused.folder / paths.PAUSE).write_bytes(b"{")
    assert (record.read(), record.is_there()) == (Pause(None), True)
    other = paused.job.spec.model_copy(update={"name": "other"})
    with pytest.raises(InvalidJobError, match="it is that of another job"):
        ask_to_resume(other)


def test_a_pause_is_told_only_between_epochs_and_a_failing_store_changes_nothing() -> None:
    told: list[str] = []

    class Record:
        is_asked: bool | None = False

        def is_there(self) -> bool:
            if self.is_asked is None:
                msg = "the store does not answer"
                raise RetryableError(msg)
            return self.is_asked

    record: Any = Record()
    pauses = Pauses(record, lambda event: told.append(event.phase), threading.Event())  # type: ignore[union-attr]
    pauses.begin("live")
    with pauses.epoch(lambda: False):
        record.is_asked = True
        for _ in range(100):
            pauses.look()
        assert told == ["live"], "the epoch under way is finished first"
    for _ in range(100):
        pauses.look()
    record.is_asked = None
    for _ in range(100):
        pauses.look()
    pauses.begin("catching up")
    assert told == ["live", "paused"]
    record.is_asked = False
    pauses.hold(lambda: False)
    assert told == ["live", "paused", "catching up"]


def test_the_command_line_pauses_and_resumes(paused: Paused, tmp_path: Path) -> None:
    paused.run(lambda _seen: None, until=Until.IDLE)
    file = tmp_path / "job.yaml"
    file.write_text(f"""
name: counts
execution: {{runtime-mode: mixed, checkpointing: {{dir: {paused.folder}}}}}
sources: {{t: {{format: parquet, path: {tmp_path / "in"}, schema: "k string, at timestamp"}}}}
steps: [{{key-by: [k], aggregate: {{n: count(*)}}}}]
sink: {{format: console}}
""")
    assert "the job pauses after" in lines(command("pause", file))[0]
    assert "goes on from its position" in lines(command("resume", file))[0]
    assert "was not paused" in lines(command("resume", file))[0]
