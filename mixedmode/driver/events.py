"""The events of a run, for its observers: the command line's display, the log, a user's own function.

An observer is a function of one event. It tells the kinds apart with `match`, and ignores the kinds that it does not
know.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from mixedmode.checkpoint.runs import state_bytes
from mixedmode.checkpoint.types import CheckedCheckpoint, Epoch, ExecutionStrategy, JoinFigures, Manifest
from mixedmode.executor.protocol import EpochResult
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

#: "paused": the job begins no epoch until it is resumed; then the phase before the pause begins again
#: "over": an earlier run ended the input of the job for good, so there is nothing to run
Phase = Literal["starting", "catching up", "live", "paused", "ended", "over"]

#: what tasks do: read and fold the input of a step; receive, sort and process it by key; store state and output
TaskPhase = Literal["planning", "reading", "sorting", "processing", "storing", "done"]


def processing_lag_seconds(seconds: float, seconds_before: float, interval_seconds: float) -> float:
    """Return how long the epoch's oldest record waited for its result, less the interval that every record may wait.

    The oldest record arrived when the previous epoch began. It waited until that epoch ended, after `seconds_before`,
    at least for an interval; then `seconds` for its own epoch. Example: with an interval of 10 s, an epoch of 4 s after
    one of 12 s has a lag of 4 + (12 - 10) = 6 s.
    """
    return seconds + max(0.0, seconds_before - interval_seconds)


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """The job enters a phase."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact that a person should see, such as a source without files."""

    text: str


@dataclass(frozen=True, slots=True)
class RecordsExpired:
    """The records start <= offset < end of a partition were gone before the epoch could read them.

    The source's `allow-data-loss` lets the job go on without them. `while_read`: they were deleted while the epoch read
    the partition, and may have been read before that in part.
    """

    source: str
    topic: str
    partition: int
    start: int
    end: int
    while_read: bool = False

    @property
    def text(self) -> str:
        """Return a text for a person."""
        what = (
            "were deleted while this job read them, and those that it had not read yet"
            if self.while_read
            else "were deleted before this job read them, and"
        )
        return (
            f"records of Kafka {what} are skipped, as allow-data-loss is true. Let the topic keep its records longer. "
            f"source={self.source}, topic={self.topic}, partition={self.partition}, "
            f"offsets=[{self.start}, {self.end})"
        )


@dataclass(frozen=True, slots=True)
class EpochStarted:
    """An epoch begins."""

    epoch: Epoch
    is_backlog: bool
    strategy: ExecutionStrategy


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """The progress of the tasks of the epoch under way. One event a second, and one when all tasks have ended.

    `seconds`: since the tasks began. `step`: the step that is under way. `share`: of all work of the tasks, an
    estimate. `seconds_left`: an estimate; None as long as there is nothing to estimate it by. `bytes_read`: of the
    input files, which have `bytes_total`; None if it is unknown, as for input that is not in files. `records_total`:
    about, by the footers of some Parquet files; None for other input. `tasks_done` and `tasks_total`: of the phase.
    `keys_share`: of the keys of the step, as far as its subtasks have processed them. `bytes_spilled`: of its rows,
    which its subtasks have written to the local disk to sort them; 0 where the tasks are on other machines.
    """

    epoch: Epoch
    is_backlog: bool
    seconds: float
    step: str
    phase: TaskPhase
    share: float
    seconds_left: float | None
    records: int
    records_total: int | None
    bytes_read: int
    bytes_total: int | None
    tasks_done: int
    tasks_total: int
    keys_share: float = 0.0
    bytes_spilled: int = 0


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """An epoch is committed and published.

    `seconds`: from the start of the epoch to its publication. `created_ms`: the time of its commit.
    `migration_seconds`: the part in which the slowest subtask wrote and stored its state; `pairs` counts the pairs of
    key and state of all subtasks. `records_late`: too late for every window. `records_ahead`: too far ahead of the
    clock to move the watermark. `records_skipped`: a function failed on them. `profile`: {stage: seconds}. A stage of
    tasks has seconds of work, added up over all tasks. A stage that begins with "driver: " has elapsed seconds;
    "driver: tasks" is the time in which Spark ran the tasks. `manifest`: None in batch mode, which has no
    checkpoint. `processing_lag_seconds`: see the function of this name; None for an epoch of backlog. `rows_read`:
    {keyed step: the rows that it read}. `joins`: {step: the figures of a join}.
    """

    epoch: Epoch
    is_backlog: bool
    strategy: ExecutionStrategy
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
    created_ms: int
    profile: Mapping[str, float] = field(default_factory=dict)
    processing_lag_seconds: float | None = None
    rows_read: Mapping[str, int] = field(default_factory=dict)
    joins: Mapping[str, JoinFigures] = field(default_factory=dict)
    manifest: Manifest | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        result: EpochResult | None,
        *,
        seconds: float,
        processing_lag_seconds: float,
        profile: Mapping[str, float],
    ) -> Self:
        """Return the event of a committed epoch.  result: None if an earlier attempt committed it and failed later."""
        return cls(
            epoch=manifest.epoch,
            is_backlog=manifest.is_backlog,
            strategy=manifest.strategy,
            records=manifest.records_in,
            rows_out=manifest.rows_out,
            pairs=manifest.pairs,
            state_bytes=sum(state_bytes(operator.runs) for operator in manifest.operators),
            spilled_runs=0 if result is None else result.spilled_runs,
            migration_seconds=0.0 if result is None else result.migration_seconds,
            watermark_us=manifest.watermark_us,
            records_late=manifest.records_late,
            records_ahead=manifest.records_ahead,
            records_skipped=manifest.records_skipped,
            seconds=seconds,
            created_ms=manifest.created_ms,
            profile=profile,
            processing_lag_seconds=None if manifest.is_backlog else processing_lag_seconds,
            rows_read=manifest.rows_read,
            joins=manifest.joins,
            manifest=manifest,
        )

    @property
    def records_per_second(self) -> float:
        """The records by the seconds of the epoch."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def state_entries(self) -> int:
        """The entries of the state. Those that a newer file of the state replaces count until the files are merged."""
        operators = () if self.manifest is None else self.manifest.operators
        return sum(run.entries - run.deletions for operator in operators for run in operator.runs)

    @property
    def lag_seconds(self) -> float | None:
        """The event-time lag: how far the watermark is behind the time of the commit.

        None without a watermark in the time that a clock can show: no event time, or the end of the input.
        """
        if self.watermark_us is None or not MIN_TIME_US < self.watermark_us < MAX_TIME_US:
            return None
        return self.created_ms / 1000 - self.watermark_us / 1_000_000


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """An epoch failed for a reason outside mixedmode, and runs again.

    This was failure number `failures` in a row; the job tolerates `tolerable`.
    """

    epoch: Epoch
    failures: int
    tolerable: int
    reason: str


@dataclass(frozen=True, slots=True)
class Flipped:
    """The backlog of a mixed job is over: from here on the job is live. At most one such event in a run.

    `after_epoch` is None when there was no backlog.
    """

    at_ms: int
    after_epoch: Epoch | None


@dataclass(frozen=True, slots=True)
class StepRescaled:
    """The number of subtasks of one step changed since the previous epoch."""

    operator_id: str
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The numbers of subtasks of some steps change from `epoch` on.  `reason` says who requested it."""

    epoch: Epoch
    steps: tuple[StepRescaled, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RescaleIgnored:
    """A request to rescale is outdated or unreadable, and is ignored; the parallelism does not change."""

    reason: str


@dataclass(frozen=True, slots=True)
class WentBack:
    """The newest checkpoints are damaged, so the job goes on from the older one `to`, and reads later input again.

    `damaged`: the abandoned checkpoints, newest first. `files_rolled_back`: how many files or rows of outputs were
    rolled back. `not_rolled_back`: outputs that cannot be rolled back, and keep later rows ("" is the main one).
    """

    to: Epoch
    damaged: tuple[CheckedCheckpoint, ...]
    files_rolled_back: int
    not_rolled_back: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SparkLogRepaired:
    """Entries of Spark's own log were missing or damaged. The job needs none of them, and goes on as if whole."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedLate:
    """An earlier start committed this epoch and ended before it published the outputs; this start published them."""

    epoch: Epoch


Event = (
    PhaseBegan
    | Notice
    | RecordsExpired
    | EpochStarted
    | EpochProgress
    | EpochCommitted
    | EpochFailed
    | Flipped
    | Rescaled
    | RescaleIgnored
    | WentBack
    | SparkLogRepaired
    | PublishedLate
)

#: Receives one event after the other; the result is ignored. The job waits for it, so it should be quick.
Observer = Callable[[Event], object]
