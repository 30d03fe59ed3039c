"""The clock, which is injected wherever a decision or a record depends on the time."""

import time
from typing import Protocol

_SET_BACK_MS = 1_000  # what waits for a time of the clock waits no longer than that for a smaller step


class Clock(Protocol):
    """A wall clock and a stopwatch."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""

    def seconds(self) -> float:
        """Return monotonic seconds. Only differences between two readings have a meaning."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def seconds(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()


class ClockWatch:
    """Finds that a wall clock is set back, by more than a second, between two looks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest_ms = clock.now_ms()
        self.was_set_back = False

    def look(self) -> None:
        """Look at the clock."""
        now_ms = self._clock.now_ms()
        self.was_set_back = self.was_set_back or now_ms < self._newest_ms - _SET_BACK_MS
        self._newest_ms = max(self._newest_ms, now_ms)
