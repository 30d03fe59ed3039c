"""The time to live of state: from its last write, or from its last use, by the processing-time clock.

Expired state is never returned, so a function cannot tell whether it is still stored. The sweep
(operators/process/due.py) removes it, without a deadline.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mixedmode.durations import DURATION_MS_MAX, parse_duration_ms
from mixedmode.errors import InvalidJobError


@dataclass(frozen=True, slots=True)
class Ttl:
    """Time to live of a state: `Ttl("7d")`, or `Ttl("1h30m", refresh="read-and-write")`, or with a timedelta.

    refresh: `write` counts from the last write, `read-and-write` from the last write or read. The clock is the clock of
    the epoch. Raise InvalidJobError if `duration` is not a duration, or is less than a millisecond.
    """

    duration: str | timedelta
    refresh: Literal["write", "read-and-write"] = "write"

    def __post_init__(self) -> None:
        if not 0 < self.duration_ms <= DURATION_MS_MAX:
            raise InvalidJobError(_not_a_duration(self.duration))
        if self.refresh not in ("write", "read-and-write"):
            msg = f"this is no way to refresh a Ttl. Choose `write` or `read-and-write`. refresh={self.refresh}"
            raise InvalidJobError(msg)

    @property
    def duration_ms(self) -> int:
        """The duration in milliseconds."""
        if isinstance(self.duration, timedelta):
            return self.duration // timedelta(milliseconds=1)
        try:
            return parse_duration_ms(self.duration)
        except InvalidJobError as error:
            raise InvalidJobError(_not_a_duration(self.duration)) from error


def _not_a_duration(found: object) -> str:
    return (
        "this is no time to live. Write whole numbers with their units, largest unit first, such as 30s, 12h, 7d or "
        f"1h30m, or give a timedelta; it must be at least 1ms. found={found}"
    )
