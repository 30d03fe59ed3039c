"""What a run tells whoever watches it: the command line's display, a log, a test."""

from dataclasses import dataclass
from typing import Literal, Protocol

from mixedmode.checkpoint.types import Epoch, PathTaken

#: "over": the input of the job was ended for good before, so there is nothing to run
Phase = Literal["starting", "catching up", "live", "ended", "over"]


@dataclass(frozen=True, slots=True)
class EpochStarted:
    """An epoch begins."""

    epoch: Epoch
    is_backlog: bool
    path: PathTaken


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """An epoch is committed and published.

    `seconds` is the time from its start to its publication; `migration_seconds` is the part of it in which the slowest
    subtask wrote and stored the epoch's `pairs` of key and state. `records_late` came too late for every window;
    `records_ahead` are too far ahead of the clock to move the watermark; on `records_skipped` a function failed.
    """

    epoch: Epoch
    is_backlog: bool
    path: PathTaken
    records: int
    rows_out: int
    pairs: int
    state_bytes: int
    spilled_runs: int
    migration_seconds: float
    watermark_us: int | None
    records_late: int
    records_ahead: int
    records_skipped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Flipped:
    """The backlog is over: from here on the job is live. `after_epoch` is None when there was no backlog."""

    at_ms: int
    after_epoch: Epoch | None


class Observer(Protocol):
    """Receives events in order, from the thread that drives the job. Must not raise, and should be quick."""

    def on_phase(self, phase: Phase) -> None:
        """The job enters a phase."""

    def on_epoch_started(self, event: EpochStarted) -> None:
        """An epoch begins."""

    def on_epoch_committed(self, event: EpochCommitted) -> None:
        """An epoch is committed and published."""

    def on_flip(self, event: Flipped) -> None:
        """The backlog flag of a mixed job goes down; at most once in a run."""


class Silent:
    """An observer that shows nothing."""

    def on_phase(self, phase: Phase) -> None:
        """Nothing to show."""

    def on_epoch_started(self, event: EpochStarted) -> None:
        """Nothing to show."""

    def on_epoch_committed(self, event: EpochCommitted) -> None:
        """Nothing to show."""

    def on_flip(self, event: Flipped) -> None:
        """Nothing to show."""
