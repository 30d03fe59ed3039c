"""The events of a run as log lines, of the logger `mixedmode.run`: the observer that every run has.

A line has a message without values, and its values by name, so that a program can read the lines as JSON.
"""

import logging
from dataclasses import asdict, dataclass
from typing import Any, assert_never

import numpy as np

from mixedmode.checkpoint.types import epoch_kind
from mixedmode.driver.events import (
    EpochCommitted,
    EpochFailed,
    EpochProgress,
    EpochStarted,
    Event,
    Flipped,
    Notice,
    PhaseBegan,
    PublishedLate,
    RecordsExpired,
    Rescaled,
    RescaleIgnored,
    SparkLogRepaired,
    WentBack,
)
from mixedmode.log import FIELDS, RUN
from mixedmode.time import MAX_TIME_US, MIN_TIME_US

__all__ = ["LogLines"]

_logger = logging.getLogger(RUN)
PROGRESS_SECONDS = 9.5  # at least so far apart are two lines of an epoch; it has an event about every second
_PHASES = {
    "starting": "starting Spark",
    "catching up": "processing the input that exists",
    "live": "live",
    "paused": "paused until it is resumed with `mixedmode resume`",
    "ended": "done",
    "over": "an earlier run ended the input of this job, so there is nothing to run",
}


@dataclass
class LogLines:
    """An observer that logs. `job`: the name of the job, which every line has."""

    job: str
    _progress_seconds: float = 0.0  # of the epoch under way, when it last had a line

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912  # one case for each kind of event
        """Log one event."""
        match event:
            case PhaseBegan(phase):
                self._log(logging.INFO, _PHASES[phase])
            case Notice(text):
                self._log(logging.WARNING, text)
            case RecordsExpired():
                self._log(logging.WARNING, event.text)
            case EpochStarted(epoch, is_backlog, strategy):
                level = logging.INFO if is_backlog else logging.DEBUG
                self._progress_seconds = 0.0
                self._log(
                    level, "epoch started", epoch=epoch, kind=epoch_kind(is_backlog=is_backlog), strategy=strategy
                )
            case EpochProgress():
                if event.phase != "done" and event.seconds - self._progress_seconds >= PROGRESS_SECONDS:
                    self._progress_seconds = event.seconds
                    self._log(logging.INFO, "epoch under way", **_progress(event))
            case EpochCommitted():
                self._log(logging.INFO, "epoch committed", **_figures(event))
            case EpochFailed(epoch, failures, tolerable, reason):
                message = "epoch failed, and runs again"
                self._log(logging.WARNING, message, epoch=epoch, failures=failures, tolerable=tolerable, reason=reason)
            case Flipped(_, after_epoch):
                self._log(logging.INFO, "flip: live from here on", after_epoch=after_epoch)
            case Rescaled(epoch, steps, reason):
                message = "the number of subtasks changes"
                changes = {step.operator_id: [step.before, step.now] for step in steps}
                self._log(logging.INFO, message, epoch=epoch, steps=changes, reason=reason)
            case RescaleIgnored(reason):
                self._log(logging.WARNING, "a request to rescale is ignored", reason=reason)
            case WentBack():
                self._went_back(event)
            case SparkLogRepaired(files):
                message = "entries of Spark's log were missing or damaged, and not needed"
                self._log(logging.WARNING, message, files=list(files))
            case PublishedLate(epoch):
                message = "an earlier start committed this epoch, and ended before it published all outputs"
                self._log(logging.WARNING, message, epoch=epoch)
            case _:
                assert_never(event)

    def _went_back(self, event: WentBack) -> None:
        for checkpoint in event.damaged:
            found = [str(damage) for damage in checkpoint.damages]
            self._log(logging.WARNING, "a checkpoint is damaged", checkpoint=checkpoint.epoch, damages=found)
        self._log(
            logging.WARNING,
            "going on from an older checkpoint; later input is read again",
            checkpoint=event.to,
            files_rolled_back=event.files_rolled_back,
            not_rolled_back=list(event.not_rolled_back),
        )

    def _log(self, level: int, message: str, **values: Any) -> None:
        if _logger.isEnabledFor(level):
            _logger.log(level, "%s", message, extra={FIELDS: {"job": self.job, **values}})


def _figures(event: EpochCommitted) -> dict[str, Any]:
    """Return the values of the line of a committed epoch. Counts of records that need attention are left out if 0."""
    lags = {"lag_seconds": event.lag_seconds, "processing_lag_seconds": event.processing_lag_seconds}
    counts = {
        "records_late": event.records_late,
        "records_ahead": event.records_ahead,
        "records_skipped": event.records_skipped,
        "spilled_runs": event.spilled_runs,
        "joins": {step: asdict(figures) for step, figures in event.joins.items()},
    }
    return {
        "epoch": event.epoch,
        "kind": epoch_kind(is_backlog=event.is_backlog),
        "strategy": event.strategy,
        "seconds": round(event.seconds, 3),
        "records": event.records,
        "records_per_second": round(event.records_per_second),
        "rows_out": event.rows_out,
        "watermark": _watermark(event.watermark_us),
        **{name: round(lag, 1) for name, lag in lags.items() if lag is not None},
        "pairs": event.pairs,
        "state_entries": event.state_entries,
        "state_bytes": event.state_bytes,
        **{name: count for name, count in counts.items() if count},
    }


def _progress(event: EpochProgress) -> dict[str, Any]:
    """Return the values of the line of an epoch under way. Unknown figures are left out."""
    seconds_left = None if event.seconds_left is None else round(event.seconds_left)
    unknown = {
        "seconds_left": seconds_left,
        "records_total": event.records_total,
        "bytes_total": event.bytes_total,
    }
    return {
        "epoch": event.epoch,
        "kind": epoch_kind(is_backlog=event.is_backlog),
        "seconds": round(event.seconds, 1),
        "step": event.step,
        "phase": event.phase,
        "share": round(event.share, 3),
        "records": event.records,
        "bytes_read": event.bytes_read,
        **{name: value for name, value in unknown.items() if value is not None},
        "tasks_done": event.tasks_done,
        "tasks_total": event.tasks_total,
        "keys_share": round(event.keys_share, 3),
        "bytes_spilled": event.bytes_spilled,
    }


def _watermark(watermark_us: int | None) -> str | None:
    """Return a watermark in the form of ISO 8601; None before the first record with an event time."""
    if watermark_us is None or watermark_us == MIN_TIME_US:
        return None
    if watermark_us == MAX_TIME_US:
        return "end of input"
    return f"{np.datetime64(watermark_us // 1_000_000, 's')}Z"
