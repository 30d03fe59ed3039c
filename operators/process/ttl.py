"""How long state lives: from its last write, or from its last use, by the processing-time clock.

The one idea: expired state is never returned, so a function cannot tell whether it is still stored. Its removal is the
sweep's business (operators/process/due.py), and has no deadline.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mixedmode.errors import InvalidJobError

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}  # largest first, as in a job file
_TEXT = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _UNITS_MS))
_MS_MAX = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Ttl:
    """Time to live of a state: `Ttl("7d")`, or `Ttl("1h30m", refresh="read-and-write")`, or with a timedelta.

    refresh: `write` counts from the last write, `read-and-write` from the last write or read. The clock is that of the
    epoch. Raises InvalidJobError for what is no duration, or less than a millisecond.
    """

    duration: str | timedelta
    refresh: Literal["write", "read-and-write"] = "write"

    def __post_init__(self) -> None:
        if not 0 < self.duration_ms <= _MS_MAX:
            raise InvalidJobError(_not_a_duration(self.duration))
        if self.refresh not in ("write", "read-and-write"):
            msg = f"this is no way to refresh a Ttl. Choose `write` or `read-and-write`. refresh={self.refresh}"
            raise InvalidJobError(msg)

    @property
    def duration_ms(self) -> int:
        """The duration in milliseconds."""
        if isinstance(self.duration, timedelta):
            return self.duration // timedelta(milliseconds=1)
        match = _TEXT.fullmatch(str(self.duration))
        if match is None or match.lastindex is None:
            raise InvalidJobError(_not_a_duration(self.duration))
        return sum(int(count or 0) * unit for count, unit in zip(match.groups(), _UNITS_MS.values(), strict=True))


def _not_a_duration(found: object) -> str:
    return (
        "this is no time to live. Write whole numbers with their units, largest unit first, such as 30s, 12h, 7d or "
        f"1h30m, or give a timedelta; it must be at least 1ms. found={found}"
    )
