"""The position of a harness in time between two epochs, and what the next epoch derives from it."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from mixedmode.time import (
    MAX_TIME_US,
    MIN_TIME_US,
    EpochTime,
    Seen,
    Split,
    SplitProgress,
    Strategy,
    WatermarkState,
    advance,
)

_SPLIT: Split = ("rows", "")  # all records come from one source


@dataclass(frozen=True, slots=True)
class Moment:
    """The position in time after an epoch. `newest_us` is the greatest event time so far, None before the first record.

    `clock_ms` is the present time. `was_backlog` says whether the last epoch was backlog, and `before_ms` is its clock.
    Both are None before the first epoch; `before_ms` is None after a backlog, too. `epochs`: how many there were.
    `records_late` and `records_skipped` are counted from the beginning.
    """

    newest_us: int | None
    watermark_us: int
    clock_ms: int
    epochs: int
    was_backlog: bool | None
    before_ms: int | None
    records_late: int
    records_skipped: int

    @classmethod
    def initial(cls, clock_ms: int) -> Self:
        """Return the moment before the first epoch."""
        return cls(None, MIN_TIME_US, clock_ms, 0, None, None, 0, 0)

    def with_records(self, times_us: npt.NDArray[np.int64] | None, bound_us: int | None) -> Self:
        """Return the moment with the event times of the epoch's records.

        bound_us: the out-of-orderness; None if the watermark does not follow the records.
        """
        if times_us is None or not len(times_us):
            return self
        strategy = Strategy(bound_us or 0, idle_timeout_ms=None, max_ahead_ms=None)
        before = WatermarkState({_SPLIT: SplitProgress(self.newest_us, self.clock_ms)}, self.watermark_us)
        seen = {_SPLIT: Seen(len(times_us), int(times_us.max()))}
        after = advance(before, seen, {_SPLIT[0]: strategy}, self.clock_ms)
        watermark_us = self.watermark_us if bound_us is None else after.watermark_us
        return replace(self, newest_us=after.splits[_SPLIT].max_time_us, watermark_us=watermark_us)

    def reaching(self, watermark_us: int) -> Self:
        """Return the moment with a watermark that is at least this one."""
        return replace(self, watermark_us=max(self.watermark_us, watermark_us))

    def epoch_time(self, before: "Moment", *, is_backlog: bool, fires_all: bool, is_final: bool) -> EpochTime:
        """Return what the operator is told in an epoch that leads from `before` to this moment."""
        return EpochTime(
            late_us=before.watermark_us,
            firing_us=MAX_TIME_US if fires_all else self.watermark_us,
            clock_ms=self.clock_ms,
            clock_before_ms=self.before_ms,
            is_backlog=is_backlog,
            was_backlog=self.was_backlog,
            is_final=is_final,
        )

    def at_end(self, *, is_backlog: bool, late: int, skipped: int) -> Self:
        """Return the moment after the epoch."""
        return replace(
            self,
            epochs=self.epochs + 1,
            was_backlog=is_backlog,
            before_ms=None if is_backlog else self.clock_ms,
            records_late=self.records_late + late,
            records_skipped=self.records_skipped + skipped,
        )
