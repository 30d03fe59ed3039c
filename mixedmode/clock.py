"""The clock, injected wherever a decision or a record depends on the time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and stopwatch."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def seconds(self) -> float:
        """A stopwatch that never goes back; its zero means nothing."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def seconds(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()
