"""Requests at every moment of a run: each answer is true of what the job then does, and each record counts once."""

import threading
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mixedmode.checkpoint.savepoint import read_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.driver import pausing
from mixedmode.driver.events import EpochCommitted, EpochStarted, Event, PhaseBegan
from mixedmode.driver.run import RunOptions, Until, run_job
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.queryable import read_state
from mixedmode.serve.control import Control
from tests.driver.test_pausing import file_of
from tests.harness import ManualClock, manifests, output_rows
from tests.local_engine import LocalEngine, World, local_session

MOMENTS = ("catching up", "ends 0", "begins 1")
REQUESTS = (("drain",), ("stop", "drain"), ("pause", "drain", "stop"), ("pause", "rescale", "savepoint"))


class Steered:
    """A job without Spark, and the answers to its requests."""

    def __init__(self, folder: Path) -> None:
        (folder / "in").mkdir(parents=True)
        source = Source.parquet(folder / "in", schema="k string, at timestamp", event_time="at")
        job = Job("counts", sources={"t": source}, mode="mixed", parallelism=2, checkpoint_dir=folder / "checkpoints")
        self.job = job.key_by("k").aggregate(n="count(*)").write(Sink.parquet(folder / "out"))
        self.folder = folder
        self.world = World({"0": file_of(3)})
        self.records = 3
        self.answers: dict[str, str] = {}
        self.refused: dict[str, str] = {}

    def run(self, until: Until, moment: str, requests: Sequence[str]) -> None:
        """Run the job, and send the requests one after the other at a moment. A pause is ended by a resume."""
        stop, drain = threading.Event(), threading.Event()
        savepoints = str(self.folder / "savepoints")
        control = Control(self.job.spec, stop, drain, savepoints, ManualClock())
        given: dict[str, dict[str, Any]] = {"rescale": {"subtasks": 3}, "savepoint": {"name": "one"}}

        def ask(name: str) -> None:
            try:
                self.answers[name] = str(control.run(name, given.get(name, {})))
            except InvalidJobError as error:
                self.refused[name] = str(error)

        def observe(event: Event) -> None:
            seen = _seen(event)
            if seen == "paused":
                ask("resume")
            if seen == "live" and "1" not in self.world.files:
                self.records += 4
                self.world.files["1"] = file_of(4)
            if seen == moment:
                for name in requests:
                    ask(name)

        triggers = iter(range(5))

        def command() -> str:
            if next(triggers, None) is None:
                stop.set()  # a live job has had the time to meet all requests
            return "epoch"

        options = RunOptions(
            until,
            [observe],
            ManualClock(),
            stop,
            drain,
            session=local_session(self.world, command),
            engine=LocalEngine,
        )
        run_job(self.job.spec, self.job.where, options)

    def check(self) -> None:
        """Each answer is true, and the result is right after one more start."""
        checkpoints = self.folder / "checkpoints"
        is_over = any(manifest.is_final for manifest in manifests(checkpoints))
        if "stop" in self.answers or "drain" in self.answers:
            assert is_over == ("stop" not in self.answers)
        if "savepoint" in self.answers:
            place = self.folder / "savepoints" / "one"
            epoch = read_savepoint(ObjectStore(place)).epoch
            records = sum(manifest.records_in for manifest in manifests(checkpoints) if manifest.epoch <= epoch)
            assert read_state(place, "aggregate-1").to_pylist() == [{"k": "a", "n": records}]
        if not is_over:
            self.run(Until.IDLE, "", ())
        assert sum(manifest.records_in for manifest in manifests(checkpoints)) == self.records
        assert output_rows(self.folder / "out") == [{"k": "a", "n": self.records}]


def _seen(event: Event) -> str:
    match event:
        case PhaseBegan(phase):
            return phase
        case EpochStarted():
            return f"begins {event.epoch}"
        case EpochCommitted():
            return f"ends {event.epoch}"
        case _:
            return ""


@pytest.mark.parametrize(("until", "moment", "requests"), [*product((Until.STOPPED, Until.IDLE), MOMENTS, REQUESTS)])
def test_an_answer_is_true_of_what_the_job_then_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until, moment: str, requests: Sequence[str]
) -> None:
    """A drain of a run until it is idle was answered as taken, and left out."""
    monkeypatch.setattr(pausing, "HOLD_SECONDS", 0.001)
    job = Steered(tmp_path)
    job.run(until, moment, requests)
    job.check()
