"""The pause between live epochs that are backlog again, with `interval-during-backlog` more than 0."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from mixedmode.checkpoint.types import Epoch
from mixedmode.config import JobSpec, ModePolicy
from mixedmode.driver.phases import Phases
from tests.config.refusals import SMALLEST_JOB
from tests.harness import HandClock


class RecordedStop(threading.Event):
    """An event that records how long it was waited for, in seconds, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return self.is_set()


class Runner:
    """Runs epochs of known lengths: {epoch: (is backlog, seconds)}."""

    def __init__(self, epochs: dict[int, tuple[bool, float]], clock: HandClock) -> None:
        self.latest: Any = SimpleNamespace(epoch=Epoch(0), is_backlog=True)
        self._epochs = epochs
        self._clock = clock

    def run(self, _batch: object, epoch: Epoch, _settings: object, *, is_catching_up: bool) -> None:
        assert not is_catching_up, "these epochs are live"
        is_backlog, seconds = self._epochs[epoch]
        self._clock.at += seconds
        self.latest = SimpleNamespace(epoch=epoch, is_backlog=is_backlog)


def waits(epochs: dict[int, tuple[bool, float]], *, backlog_ms: int, live_ms: int = 1000) -> list[float | None]:
    """Return the pauses of the job after its live epochs, in seconds."""
    clock, stop = HandClock(), RecordedStop()
    context: Any = SimpleNamespace(
        spec=JobSpec.model_validate(SMALLEST_JOB),
        log=SimpleNamespace(store=SimpleNamespace(list=lambda _folder: [])),
        observer=None,
        stop=stop,
        clock=clock,
    )
    inputs: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)))
    runner: Any = Runner(epochs, clock)
    phases = Phases(inputs, ModePolicy("streaming", backlog_ms, live_ms), runner, context)
    for epoch in epochs:
        phases._run_live(None, Epoch(epoch))  # type: ignore[arg-type]  # the body of foreachBatch
    return stop.waits


def test_an_epoch_in_backlog_again_is_followed_by_the_rest_of_the_longer_interval() -> None:
    assert waits({1: (True, 3.0)}, backlog_ms=10_000) == [pytest.approx(7.0)]
    assert waits({1: (True, 3.0), 2: (True, 0.5)}, backlog_ms=10_000) == [pytest.approx(7.0), pytest.approx(9.5)]


def test_an_epoch_longer_than_the_interval_is_followed_at_once() -> None:
    assert waits({1: (True, 12.0)}, backlog_ms=10_000) == [0.0]


def test_live_epochs_follow_the_checkpointing_interval_alone() -> None:
    assert waits({1: (False, 0.2)}, backlog_ms=10_000) == []
    assert waits({1: (True, 3.0), 2: (False, 0.2)}, backlog_ms=10_000) == [pytest.approx(7.0)]


@pytest.mark.parametrize("backlog_ms", [0, 500, 1000])
def test_an_interval_that_is_not_longer_than_the_live_one_changes_nothing(backlog_ms: int) -> None:
    assert waits({1: (True, 0.2)}, backlog_ms=backlog_ms) == []
