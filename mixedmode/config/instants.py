"""Points in time in the texts of users: exactly what the text says, to the microsecond, or refused. Pure."""

import re
from datetime import UTC, datetime, timedelta

__all__ = ["milliseconds_from", "parse_instant", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FINER_THAN_MICROSECONDS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def parse_time(text: str) -> datetime | None:
    """Return the time that a text names, without a time zone if the text has no offset from UTC.

    None: the text is no time, or is finer than a microsecond, which Python would cut off.

    >>> parse_time("2026-11-24 08:00:00.5").isoformat()
    '2026-11-24T08:00:00.500000'
    >>> parse_time("2026-11-24 08:00:00.0000001")
    """
    try:
        return None if _FINER_THAN_MICROSECONDS.search(text) else datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_instant(text: str) -> datetime | None:
    """Return the instant in UTC that a text names; None as in `parse_time`, and for a text without an offset."""
    found = parse_time(text)
    try:
        return None if found is None or found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:  # in UTC it is before the year 1, or after 9999
        return None


def milliseconds_from(at: datetime) -> int:
    """Return the first whole millisecond since 1970 that is not before an instant.

    Places that count in milliseconds have the same records at or after both.

    >>> [milliseconds_from(_EPOCH + timedelta(microseconds=us)) for us in (0, 1, 1000, -1)]
    [0, 1, 1, 0]
    """
    return -((_EPOCH - at) // timedelta(milliseconds=1))
