"""The event time and processing time of an epoch: all that an operator may know about time.

Times are microseconds since 1970, UTC; clocks are milliseconds. `MIN_TIME_US` is the watermark before any record,
`MAX_TIME_US` the watermark after the last record of the job.

An epoch has two watermarks. The watermark at its start decides which records are late. It depends on
nothing in the epoch, so a repeated epoch makes the same decisions. The watermark that includes the epoch's own records
decides what fires at its end. So no additional empty epoch is needed to close a window.

    Example: with late_us=10 and firing_us=25, a record at 9 is late, and a window that ends at 20 fires in this epoch.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

MIN_TIME_US = -(2**63)
MAX_TIME_US = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EpochTime:
    """Timers and windows due at or before `late_us` have fired; those due at or before `firing_us` fire in this epoch.

    `late_us` is the job's watermark at the start of the epoch. `clock_ms` is now. `clock_before_ms` is the clock of the
    previous epoch; None if no processing-time timer has been checked yet, that is in the first epoch and right after a
    backlog. `was_backlog` says whether the previous epoch was backlog, None for the first epoch. `is_final`: no record
    and no epoch comes after this epoch (batch mode, and the end of the input).
    """

    late_us: int
    firing_us: int
    clock_ms: int
    clock_before_ms: int | None
    is_backlog: bool
    was_backlog: bool | None
    is_final: bool = False

    @property
    def fires_everything(self) -> bool:
        """Return whether everything fires: in the final epoch, and in a backlog with `end-of-key-watermark: max`."""
        return self.firing_us == MAX_TIME_US

    @property
    def passed_us(self) -> tuple[int, int]:
        """Return (after, up to] of the times that the watermark passes in this epoch: the times below it.

        Below MIN_TIME_US is no time, so up to MIN_TIME_US - 1 is none; a watermark of MAX_TIME_US passes all.
        """
        return _last_below(self.late_us), _last_below(self.firing_us)

    def has_passed(self, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return (n,) True for times that the watermark has passed at the end of the epoch: no such row can come."""
        return times_us < self.firing_us if not self.fires_everything else np.ones(len(times_us), np.bool_)


def _last_below(watermark_us: int) -> int:
    return watermark_us if watermark_us == MAX_TIME_US else watermark_us - 1


def shifted_us(time_us: int, by_us: int) -> int:
    """Return time_us + by_us, clipped to [MIN_TIME_US, MAX_TIME_US]; these two limits themselves are not shifted."""
    if time_us in (MIN_TIME_US, MAX_TIME_US):
        return time_us
    return max(MIN_TIME_US, min(MAX_TIME_US, time_us + by_us))


def shown_time(time_us: int) -> str:
    """Return a time as text for a message; in microseconds if Python's datetime does not have its year."""
    try:
        return str(_EPOCH + timedelta(microseconds=time_us))
    except OverflowError:
        return f"{time_us} us"
