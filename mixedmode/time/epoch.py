"""Where an epoch stands in event time and in processing time: all that an operator may know about time.

Times are microseconds since 1970, UTC; clocks are milliseconds. `MIN_TIME_US` is a watermark that has not begun,
`MAX_TIME_US` the one after the last record there will ever be.

The one idea: an epoch has two watermarks. Lateness is judged by the one at its start, which depends on nothing in the
epoch, so a repeat judges alike; what fires at its end is decided by the one that includes its own records, so no
further, empty epoch is needed to close a window.
"""

from dataclasses import dataclass

MIN_TIME_US = -(2**63)
MAX_TIME_US = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EpochTime:
    """What is at or before `late_us` has fired; what is at or before `firing_us` fires in this epoch.

    `late_us` is the job's watermark at the start of the epoch. `clock_ms` is now; `clock_before_ms` is None when no
    processing-time timer has been looked at yet, so at the first epoch and right after a backlog. `was_backlog` is None
    for the first epoch. `is_final`: no record comes after this epoch, and no epoch (batch, and the end of the input).
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
        """Whether nothing waits for the watermark: at the end, and in a backlog with `end-of-key-watermark: max`."""
        return self.firing_us == MAX_TIME_US


def shifted_us(time_us: int, by_us: int) -> int:
    """Time + by, staying within [MIN_TIME_US, MAX_TIME_US]; the two ends stay where they are."""
    if time_us in (MIN_TIME_US, MAX_TIME_US):
        return time_us
    return max(MIN_TIME_US, min(MAX_TIME_US, time_us + by_us))
