"""What a run tells whoever watches it: the command line's display, a log, a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mixedmode.checkpoint.types import CheckedCheckpoint, Epoch, PathTaken

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
    `profile`: where the time went. Stages of tasks are seconds of work, added up over all of them; those that begin
    with "driver: " are seconds that passed, of which "driver: tasks" are those in which Spark ran the tasks.
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
    profile: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """An epoch failed for a reason outside, and is run again: the `failures`-th time in a row, of `tolerable`."""

    epoch: Epoch
    failures: int
    tolerable: int
    reason: str


@dataclass(frozen=True, slots=True)
class Flipped:
    """The backlog is over: from here on the job is live. `after_epoch` is None when there was no backlog."""

    at_ms: int
    after_epoch: Epoch | None


@dataclass(frozen=True, slots=True)
class StepRescaled:
    """One step has another number of subtasks than in the epoch before."""

    operator_id: str
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class Rescaled:
    """Steps have other numbers of subtasks from `epoch` on.  `reason` says who wants it so."""

    epoch: Epoch
    steps: tuple[StepRescaled, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class WentBack:
    """The newest checkpoints are damaged, so the job goes on from the older one `to`, and reads again what came after.

    `damaged` are the checkpoints that it has left, newest first. `files_taken_back` files or rows of outputs were
    rolled back; what the outputs `lasting` (by name, "" is the main one) have of later epochs stays there.
    """

    to: Epoch
    damaged: tuple[CheckedCheckpoint, ...]
    files_taken_back: int
    lasting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SparkLogRepaired:
    """Entries of Spark's own log were missing or damaged, and need not be restored. The job goes on as if whole."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedLate:
    """An earlier start committed this epoch and ended before its outputs were published; now they are."""

    epoch: Epoch


class Observer(Protocol):
    """Receives events in order, from the thread that drives the job. Must not raise, and should be quick."""

    def on_phase(self, phase: Phase) -> None:
        """The job enters a phase."""

    def on_epoch_started(self, event: EpochStarted) -> None:
        """An epoch begins."""

    def on_epoch_committed(self, event: EpochCommitted) -> None:
        """An epoch is committed and published."""

    def on_epoch_failed(self, event: EpochFailed) -> None:
        """An epoch failed and is run again; the job tolerates it."""

    def on_flip(self, event: Flipped) -> None:
        """The backlog flag of a mixed job goes down; at most once in a run."""

    def on_rescaled(self, event: Rescaled) -> None:
        """The epoch that is about to begin has other numbers of subtasks than the one before it."""

    def on_rescale_ignored(self, reason: str) -> None:
        """A request to rescale is there and does not count; the job goes on as it was."""

    def on_notice(self, text: str) -> None:
        """Something about the beginning of the job that a person should see, such as a source without any file."""

    def on_went_back(self, event: WentBack) -> None:
        """The start goes on from an older checkpoint, as newer ones are damaged; at most once in a run."""

    def on_spark_log_repaired(self, event: SparkLogRepaired) -> None:
        """Spark's own log was mended; at most once in a run."""

    def on_published_late(self, event: PublishedLate) -> None:
        """The start published what an earlier one had committed; at most once in a run."""


class Silent:
    """An observer that shows nothing."""

    def on_phase(self, phase: Phase) -> None:
        """Nothing to show."""

    def on_epoch_started(self, event: EpochStarted) -> None:
        """Nothing to show."""

    def on_epoch_committed(self, event: EpochCommitted) -> None:
        """Nothing to show."""

    def on_epoch_failed(self, event: EpochFailed) -> None:
        """Nothing to show."""

    def on_flip(self, event: Flipped) -> None:
        """Nothing to show."""

    def on_rescaled(self, event: Rescaled) -> None:
        """Nothing to show."""

    def on_rescale_ignored(self, reason: str) -> None:
        """Nothing to show."""

    def on_notice(self, text: str) -> None:
        """Nothing to show."""

    def on_went_back(self, event: WentBack) -> None:
        """Nothing to show."""

    def on_spark_log_repaired(self, event: SparkLogRepaired) -> None:
        """Nothing to show."""

    def on_published_late(self, event: PublishedLate) -> None:
        """Nothing to show."""
