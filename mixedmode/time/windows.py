"""Assign records to windows of event time. Pure; every window is [start, end), and times are microseconds UTC.

The end of a window identifies it, and time is cut into panes. A pane is the longest interval that every
window contains completely or not at all. So records are folded once per pane, no matter how many windows overlap there,
and only the panes are copied to their windows.

    Example: windows of size 10 that slide by 5 have panes of 5. A record at 7 is in the pane [5, 10), which belongs to
    the windows [0, 10) and [5, 15).

Windows are aligned on a scale of ticks: microseconds since the offset; or, with a time zone, days of the zone, which
have 23 to 25 hours. A local day begins at its first local midnight plus the offset. If the clock skips that time, the
day begins later, by as much as the clock was put forward. If a zone skips a whole day, this day ends where it begins,
and has no windows.

Invariants (tests/time/test_windows.py):
  I1  windows_of_panes(panes(t)) are exactly the windows [starts(e), e) with starts(e) <= t < e, each once
  I2  records with equal panes have equal windows

Sources: Flink, TumblingEventTimeWindows.java, SlidingEventTimeWindows.java, and the CUMULATE table function.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from mixedmode.errors import InvalidJobError
from mixedmode.keys import group_codes

DAY_US = 86_400_000_000
TIME_LIMIT_US = 2**62  # of both signs, 146,000 years: beyond, bounds of windows could overflow into the past

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_MAX = 10_000  # 27 years: looking up all these days takes some milliseconds, less than grouping
_FIRST_US, _LAST_US = -719_000 * DAY_US, 2_932_000 * DAY_US  # about the years 1 to 9999, those of Python's datetime

Int64s = npt.NDArray[np.int64]


class TimeWindows(Protocol):
    """Windows whose bounds do not depend on the records. All arrays are int64."""

    __slots__ = ()

    @abstractmethod
    def panes(self, times_us: Int64s) -> Int64s:
        """Return for (n,) event times (n,) ends of their panes. Raises InvalidJobError beyond TIME_LIMIT_US."""

    @abstractmethod
    def windows_of_panes(self, pane_ends: Int64s) -> tuple[Int64s, Int64s]:
        """Return for (n,) ends of panes all pairs of a pane and a window that contains it, as two arrays of (m,).

        The first array holds the row in `pane_ends`, ascending; the second holds the end of the window.
        """

    @abstractmethod
    def starts(self, window_ends: Int64s) -> Int64s:
        """Return for (n,) ends of windows their (n,) starts."""

    @property
    @abstractmethod
    def windows_per_record(self) -> int:
        """Return the largest number of windows that contain one record."""


@dataclass(frozen=True, slots=True)
class Tumbling(TimeWindows):
    """Windows [offset + k * size, offset + (k + 1) * size); with a time zone, size is a number of whole days."""

    size_us: int
    offset_us: int = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        _check(self.time_zone, self.size_us)

    @property
    @override
    def windows_per_record(self) -> int:
        return 1

    @override
    def panes(self, times_us: Int64s) -> Int64s:
        """Return the ends of the panes; a pane is a window."""
        scale, size = _scale(self.offset_us, self.time_zone), _ticks(self.size_us, self.time_zone)
        return scale.instants(_next(scale.ticks(checked_times(times_us)), size))

    @override
    def windows_of_panes(self, pane_ends: Int64s) -> tuple[Int64s, Int64s]:
        return np.arange(len(pane_ends)), pane_ends

    @override
    def starts(self, window_ends: Int64s) -> Int64s:
        scale, size = _scale(self.offset_us, self.time_zone), _ticks(self.size_us, self.time_zone)
        return scale.instants(scale.ticks(window_ends - 1) // size * size)


@dataclass(frozen=True, slots=True)
class Sliding(TimeWindows):
    """Windows [offset + k * slide, offset + k * slide + size), slide <= size; with a time zone, both are whole days."""

    size_us: int
    slide_us: int
    offset_us: int = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        _check(self.time_zone, self.size_us, self.slide_us)
        assert self.slide_us <= self.size_us, self

    @property
    @override
    def windows_per_record(self) -> int:
        return -(-self.size_us // self.slide_us)

    @override
    def panes(self, times_us: Int64s) -> Int64s:
        """Return the ends of the panes; a pane ends where a window starts, and where one ends."""
        scale, size, slide = self._on_scale()
        ticks = scale.ticks(checked_times(times_us))
        ends = _next(ticks, slide)
        if size % slide:
            ends = np.minimum(ends, _next(ticks, slide, size % slide))
        return scale.instants(ends)

    @override
    def windows_of_panes(self, pane_ends: Int64s) -> tuple[Int64s, Int64s]:
        """Return the windows of each pane in order of time."""
        scale, size, slide = self._on_scale()
        ticks = scale.ticks(pane_ends - 1)
        first = _next(ticks, slide, size % slide)
        return _every(scale, first, ticks // slide * slide + size, slide)

    @override
    def starts(self, window_ends: Int64s) -> Int64s:
        scale, size, slide = self._on_scale()
        return scale.instants(_next(scale.ticks(window_ends - 1), slide, size % slide) - size)

    def _on_scale(self) -> tuple["_Scale", int, int]:
        size, slide = _ticks(self.size_us, self.time_zone), _ticks(self.slide_us, self.time_zone)
        return _scale(self.offset_us, self.time_zone), size, slide


@dataclass(frozen=True, slots=True)
class Cumulating(TimeWindows):
    """Windows [offset + k * size, offset + k * size + j * step) for j = 1 ... size / step.

    With a time zone, size and step are whole days.
    """

    size_us: int
    step_us: int
    offset_us: int = 0
    time_zone: str | None = None

    def __post_init__(self) -> None:
        _check(self.time_zone, self.size_us, self.step_us)
        assert self.size_us % self.step_us == 0, self

    @property
    @override
    def windows_per_record(self) -> int:
        return self.size_us // self.step_us

    @override
    def panes(self, times_us: Int64s) -> Int64s:
        """Return the ends of the panes; a pane is a step."""
        scale, step = _scale(self.offset_us, self.time_zone), _ticks(self.step_us, self.time_zone)
        return scale.instants(_next(scale.ticks(checked_times(times_us)), step))

    @override
    def windows_of_panes(self, pane_ends: Int64s) -> tuple[Int64s, Int64s]:
        """Return the windows of each pane in order of time."""
        scale, size, step = self._on_scale()
        ticks = scale.ticks(pane_ends - 1)
        return _every(scale, _next(ticks, step), _next(ticks, size), step)

    @override
    def starts(self, window_ends: Int64s) -> Int64s:
        scale, size, _ = self._on_scale()
        return scale.instants(scale.ticks(window_ends - 1) // size * size)

    def _on_scale(self) -> tuple["_Scale", int, int]:
        size, step = _ticks(self.size_us, self.time_zone), _ticks(self.step_us, self.time_zone)
        return _scale(self.offset_us, self.time_zone), size, step


def checked_times(times_us: Int64s) -> Int64s:
    """Return the times unchanged. Raises InvalidJobError if a time is beyond TIME_LIMIT_US."""
    if len(times_us) and not (times_us.min() > -TIME_LIMIT_US and times_us.max() < TIME_LIMIT_US):
        msg = (
            "a record's event time is so far from now that no window can be told for it. Filter such records out in a "
            f"sql step before this one. least_us={times_us.min()}, greatest_us={times_us.max()}"
        )
        raise InvalidJobError(msg)
    return times_us


class _Scale(Protocol):
    def ticks(self, times_us: Int64s) -> Int64s:
        """Return the tick that contains each time: instants(tick) <= time < instants(tick + 1)."""

    def instants(self, ticks: Int64s) -> Int64s:
        """Return the start of each tick; it never decreases with the tick."""


@dataclass(frozen=True, slots=True)
class _Microseconds:
    offset_us: int

    def ticks(self, times_us: Int64s) -> Int64s:
        return times_us - self.offset_us if self.offset_us else times_us

    def instants(self, ticks: Int64s) -> Int64s:
        return ticks + self.offset_us if self.offset_us else ticks


@dataclass(frozen=True, slots=True)
class _LocalDays:
    """Days of a time zone, numbered from 1970-01-01. The zone is asked once per distinct day, not per record."""

    offset_us: int
    time_zone: str

    def ticks(self, times_us: Int64s) -> Int64s:
        days = (times_us - self.offset_us) // DAY_US  # the day in UTC; the local day is at most one day off
        is_begun = times_us >= _mapped(days, self._begins)
        is_over = times_us >= _mapped(days, lambda days: self._begins(days + 1))
        return days - 1 + is_begun + is_over

    def instants(self, ticks: Int64s) -> Int64s:
        return _mapped(ticks, self._begins)

    def _begins(self, days: Int64s) -> Int64s:
        local_us, zone = days * DAY_US + self.offset_us, ZoneInfo(self.time_zone)
        ahead_us = [_ahead_us(time_us, zone) for time_us in np.clip(local_us, _FIRST_US, _LAST_US).tolist()]
        return local_us - np.array(ahead_us, np.int64)


def _ahead_us(local_us: int, zone: ZoneInfo) -> int:
    """Return how far a zone's clock is ahead of UTC when it shows a time, in microseconds.

    fold=0 implements the rule of the module's docstring for times that the clock skips.
    """
    ahead = (_EPOCH + timedelta(microseconds=local_us)).replace(tzinfo=zone, fold=0).utcoffset()
    assert ahead is not None, zone
    return ahead // timedelta(microseconds=1)


def _scale(offset_us: int, time_zone: str | None) -> _Scale:
    return _Microseconds(offset_us) if time_zone is None else _LocalDays(offset_us, time_zone)


def _ticks(duration_us: int, time_zone: str | None) -> int:
    return duration_us if time_zone is None else duration_us // DAY_US


def _check(time_zone: str | None, *durations_us: int) -> None:
    unit_us = 1 if time_zone is None else DAY_US
    assert all(duration > 0 and duration % unit_us == 0 for duration in durations_us), (time_zone, durations_us)


def _next(ticks: Int64s, step: int, phase: int = 0) -> Int64s:
    """Return the first k * step + phase after each tick. Example: after tick 7 with step 5 and phase 1 comes 11."""
    found: Int64s = ((ticks - phase) // step + 1) * step + phase
    return found


def _every(scale: _Scale, first: Int64s, last: Int64s, step: int) -> tuple[Int64s, Int64s]:
    """Return row and instant of the ticks first, first + step, ..., last of each row.

    If several ticks of a row begin at the same instant, only one is returned.
    """
    counts = (last - first) // step + 1
    row = np.repeat(np.arange(len(first)), counts)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    instants = scale.instants(first[row] + nth * step)
    if isinstance(scale, _Microseconds):
        return row, instants
    is_new = np.ones(len(row), np.bool_)
    is_new[1:] = (row[1:] != row[:-1]) | (instants[1:] != instants[:-1])
    return row[is_new], instants[is_new]


def _mapped(days: Int64s, begins: Callable[[Int64s], Int64s]) -> Int64s:
    """Return `begins` of each day, computed once per distinct day; for all days in between, if the range is small."""
    if len(days) == 0:
        return days
    low, high = int(days.min()), int(days.max())
    if high - low < _DAYS_MAX:
        return begins(np.arange(low, high + 1))[days - low]
    groups = group_codes([pa.array(days)])
    return begins(days[groups.first_row])[groups.codes]
