"""The bounds that an epoch's watermarks set for windows: purged, fired before, firing now, or open.

Ordered by their end, the windows of a key are:

    purged before    | kept, have fired: late records change them | fire in this epoch | open
                forgotten_us                                   fired_us             firing_us

At the end of the epoch, windows that end at or before `forgetting_us` are purged: their state is deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from mixedmode.time import MAX_TIME_US, EpochTime, shifted_us


@dataclass(frozen=True, slots=True)
class Firing:
    """Inclusive bounds for the ends of windows, in microseconds; windows up to `fired_us` have fired before, and so on.

    `may_show_open`: open windows may be emitted in this epoch. `shows_open`: open windows are emitted if they have
    changed since they were last emitted.
    """

    forgotten_us: int
    fired_us: int
    firing_us: int
    forgetting_us: int
    may_show_open: bool
    shows_open: bool

    @classmethod
    def of(cls, time: EpochTime, *, allowed_lateness_us: int, early_every_ms: int | None, margin_us: int = 0) -> Self:
        """Return the bounds of an epoch. A window fires when the watermark is `margin_us` beyond its end."""
        # In a backlog whose keys end at the end of time, windows beyond the watermark fire and leave no state. So
        # every window that is open now has only later records, and must fire again.
        fired_us = shifted_us(time.late_us, -margin_us)
        firing_us = shifted_us(time.firing_us, -margin_us)
        may_show_open = early_every_ms is not None and not time.is_backlog
        return cls(
            forgotten_us=shifted_us(fired_us, -allowed_lateness_us),
            fired_us=fired_us,
            firing_us=firing_us,
            forgetting_us=shifted_us(firing_us, -allowed_lateness_us),
            may_show_open=may_show_open,
            shows_open=may_show_open and _has_struck(time, early_every_ms),
        )

    def due_ranges(self, *, with_open: bool = False) -> Iterator[tuple[int, int]]:
        """Return ranges (after, up to] of window ends that fire or are purged; `with_open` adds all open windows.

        The ranges ascend, do not overlap and do not touch. Example with fired_us 100 and firing_us 130: an allowed
        lateness of 50 gives (50, 80] and (100, 130]; an allowed lateness of 20 gives (80, 130].
        """
        forget = (self.forgotten_us, min(self.forgetting_us, self.fired_us))
        fire = (self.fired_us, MAX_TIME_US if with_open else self.firing_us)
        ranges = [(after, up_to) for after, up_to in (forget, fire) if after < up_to]
        if len(ranges) == 2 and ranges[0][1] == ranges[1][0]:
            ranges = [(ranges[0][0], ranges[1][1])]
        return iter(ranges)


def _has_struck(time: EpochTime, every_ms: int | None) -> bool:
    """Return whether the clock has passed a multiple of `every_ms` since the last epoch."""
    assert every_ms is not None
    before_ms = time.clock_before_ms
    return before_ms is None or time.clock_ms // every_ms > before_ms // every_ms
