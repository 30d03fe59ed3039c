"""What an epoch's watermarks mean for windows: which have fired, which fire now, which are forgotten or shown early.

In order of their end, the windows of a key lie so:

    forgotten before | kept, have fired: late records change them | fire in this epoch | open
                forgotten_us                                   fired_us             firing_us

and at the end of the epoch, everything up to `forgetting_us` is forgotten: its state is deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from mixedmode.time import MAX_TIME_US, EpochTime, shifted_us


@dataclass(frozen=True, slots=True)
class Firing:
    """Bounds of the ends of windows, each inclusive: up to `fired_us` windows have fired before, and so on.

    `may_show_open`: open windows may be given in this epoch. `shows_open`: those that have changed since they were last
    given are.
    """

    forgotten_us: int
    fired_us: int
    firing_us: int
    forgetting_us: int
    may_show_open: bool
    shows_open: bool

    @classmethod
    def of(cls, time: EpochTime, *, allowed_lateness_us: int, early_every_ms: int | None, margin_us: int = 0) -> Self:
        """`margin_us` is how far the watermark must be beyond the end of a window for it to be done."""
        # What fired beyond the watermark, in a backlog whose keys ended at the end of time, has left no state: whatever
        # is open now came after it, and is to fire again.
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
        """Ranges (after, up to] of the ends that fire or are to be forgotten; all open ones as well on demand.

        They ascend, and lie apart from each other.
        """
        forget = (self.forgotten_us, min(self.forgetting_us, self.fired_us))
        fire = (self.fired_us, MAX_TIME_US if with_open else self.firing_us)
        ranges = [(after, up_to) for after, up_to in (forget, fire) if after < up_to]
        if len(ranges) == 2 and ranges[0][1] == ranges[1][0]:
            ranges = [(ranges[0][0], ranges[1][1])]
        return iter(ranges)


def _has_struck(time: EpochTime, every_ms: int | None) -> bool:
    """Whether the clock has passed a multiple of `every_ms` since the last epoch."""
    assert every_ms is not None
    before_ms = time.clock_before_ms
    return before_ms is None or time.clock_ms // every_ms > before_ms // every_ms
