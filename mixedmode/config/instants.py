"""Points in time and time zones in the texts of users: exactly what the text says, to the microsecond, or refused."""

import re
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

__all__ = ["is_time_zone", "milliseconds_from", "parse_instant", "parse_time", "time_zones"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FINER_THAN_MICROSECONDS = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")

#: beside the zones in a machine's folder: its own zone, and copies of zones, of which `right` counts leap seconds
_OF_A_MACHINE = {"localtime", "posix", "posixrules", "right"}


def time_zones() -> AbstractSet[str]:
    """Return the names of the time zones of the IANA database."""
    return available_timezones() - _OF_A_MACHINE


def is_time_zone(name: str) -> bool:
    """Return whether a name means a time zone, and the same one on every machine.

    >>> is_time_zone("Europe/Berlin"), is_time_zone("localtime")
    (True, False)
    """
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, a path that leaves the folder, a folder
        return False
    return name.partition("/")[0] not in _OF_A_MACHINE


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
