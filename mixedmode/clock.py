"""The clock, which is injected wherever a decision or a record depends on the time."""

import time
from typing import Protocol


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
