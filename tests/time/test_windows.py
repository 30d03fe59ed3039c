"""Windows against an oracle that tries every window there is, and local days that are not 24 hours long."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling
from mixedmode.time.windows import DAY_US, TIME_LIMIT_US

HOUR_US = DAY_US // 24
ZONES = ["Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Asia/Kathmandu", "UTC"]

Windows = set[tuple[int, int]]
Boundary = Callable[[int], int]  # of a number of days, or of microseconds -> an instant


def int64s(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def instant(text: str) -> int:
    """A time in UTC, as "2024-03-31 01:00"."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def windows_of(windows: TimeWindows, time_us: int) -> Windows:
    """(start, end) of each window that the time falls into, by way of its pane."""
    rows, ends = windows.windows_of_panes(windows.panes(int64s(time_us)))
    assert (rows == 0).all(), rows
    found = list(zip(windows.starts(ends).tolist(), ends.tolist(), strict=True))
    assert len(set(found)) == len(found), f"a window twice: {found}"
    return set(found)


# --- the oracle ------------------------------------------------------------------------------------------------------


def boundary_of(windows: Tumbling | Sliding | Cumulating) -> tuple[Boundary, int]:
    """Return the begin of each tick as a function, and the nominal length of a tick."""
    offset_us = windows.offset_us
    if windows.time_zone is None:
        return lambda tick: tick + offset_us, 1
    zone = ZoneInfo(windows.time_zone)

    def begins(day: int) -> int:
        local = datetime(1970, 1, 1, tzinfo=zone) + timedelta(days=day, microseconds=offset_us)
        return (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    return begins, DAY_US


def expected(windows: Tumbling | Sliding | Cumulating, time_us: int) -> Windows:
    """Every window that can be near the time, if it holds the time."""
    begins, unit = boundary_of(windows)
    size = windows.size_us // unit
    every = size
    steps = [size]
    if isinstance(windows, Sliding):
        every = windows.slide_us // unit
    if isinstance(windows, Cumulating):
        steps = list(range(windows.step_us // unit, size + 1, windows.step_us // unit))
    near = (time_us - windows.offset_us) // unit
    starts = [k * every for k in range((near - size) // every - 2, near // every + 3)]
    bounds = {(begins(start), begins(start + step)) for start in starts for step in steps}
    return {(start, end) for start, end in bounds if start <= time_us < end}


# --- all kinds -------------------------------------------------------------------------------------------------------

times = st.integers(-500, 500)


@st.composite
def kinds(draw: st.DrawFn) -> Tumbling | Sliding | Cumulating:
    size = draw(st.integers(1, 40))
    offset = draw(st.integers(0, size - 1))
    kind = draw(st.sampled_from(["tumbling", "sliding", "cumulating"]))
    if kind == "tumbling":
        return Tumbling(size, offset)
    if kind == "sliding":
        return Sliding(size, draw(st.integers(1, size)), offset)
    step = draw(st.integers(1, 6))
    return Cumulating(size * step, step, offset)


@given(kinds(), times)
def test_a_record_falls_into_every_window_that_holds_its_time(
    windows: Tumbling | Sliding | Cumulating, time_us: int
) -> None:
    found = windows_of(windows, time_us)
    assert found == expected(windows, time_us)


@given(kinds(), st.lists(times, max_size=30))
def test_many_records_at_once_fall_where_each_falls_alone(
    windows: Tumbling | Sliding | Cumulating, record_times: list[int]
) -> None:
    many = int64s(*record_times)
    panes = windows.panes(many)
    rows, ends = windows.windows_of_panes(panes)
    starts = windows.starts(ends)
    assert (np.diff(rows) >= 0).all(), "rows ascend"
    for i, time in enumerate(record_times):
        found = set(zip(starts[rows == i].tolist(), ends[rows == i].tolist(), strict=True))
        assert found == expected(windows, time), time
        alike = panes == panes[i]
        assert all(windows_of(windows, t) == found for t in many[alike].tolist()), "equal panes, equal windows"


day_kinds = st.one_of(
    st.builds(
        lambda k, o, z: Tumbling(k * DAY_US, o, z),
        st.integers(1, 9),
        st.integers(0, DAY_US - 1),
        st.sampled_from(ZONES),
    ),
    st.builds(
        lambda k, s, o, z: Sliding((k + s) * DAY_US, s * DAY_US, o, z),
        st.integers(0, 5),
        st.integers(1, 5),
        st.sampled_from([0, HOUR_US // 2, 6 * HOUR_US]),
        st.sampled_from(ZONES),
    ),
    st.builds(
        lambda k, s, o, z: Cumulating(k * s * DAY_US, s * DAY_US, o, z),
        st.integers(1, 5),
        st.integers(1, 3),
        st.sampled_from([0, HOUR_US // 2, 6 * HOUR_US]),
        st.sampled_from(ZONES),
    ),
)
near_changes = st.builds(
    lambda day, us: day + us,
    st.sampled_from(
        [instant(d) for d in ("2024-03-31", "2024-10-27", "2018-11-04", "2018-02-18", "2006-10-29", "1986-01-01")]
    ),
    st.integers(-2 * DAY_US, 2 * DAY_US),
)


@given(day_kinds, near_changes)
@example(Tumbling(DAY_US, 0, "America/St_Johns"), instant("2006-10-29 02:45"))
def test_days_of_a_time_zone_begin_when_its_clock_says_so(
    windows: Tumbling | Sliding | Cumulating, time_us: int
) -> None:
    found = windows_of(windows, time_us)
    assert found == expected(windows, time_us)


# --- by example ------------------------------------------------------------------------------------------------------


def test_a_record_at_the_end_of_a_window_falls_into_the_next_one() -> None:
    assert windows_of(Tumbling(10), 9) == {(0, 10)}
    assert windows_of(Tumbling(10), 10) == {(10, 20)}
    assert windows_of(Tumbling(10), -1) == {(-10, 0)}


def test_an_offset_moves_every_window() -> None:
    assert windows_of(Tumbling(24 * HOUR_US, 6 * HOUR_US), instant("2024-05-01 05:59")) == {
        (instant("2024-04-30 06:00"), instant("2024-05-01 06:00"))
    }


def test_sliding_windows_overlap_also_where_the_slide_does_not_divide_the_size() -> None:
    assert windows_of(Sliding(10, 4), 9) == {(0, 10), (4, 14), (8, 18)}
    assert windows_of(Sliding(10, 4), 11) == {(4, 14), (8, 18)}
    assert windows_of(Sliding(60, 10), 5) == {(s, s + 60) for s in range(-50, 1, 10)}


def test_cumulating_windows_begin_together_and_grow_by_a_step() -> None:
    assert windows_of(Cumulating(6, 2), 3) == {(0, 4), (0, 6)}
    assert windows_of(Cumulating(6, 2), 5) == {(0, 6)}


def test_a_record_of_a_sliding_window_is_folded_once_however_many_windows_it_is_in() -> None:
    assert len(np.unique(Sliding(60, 10).panes(np.arange(600)))) == 60
    assert len(np.unique(Sliding(10, 4).panes(np.arange(40)))) == 20, "panes end where windows start and where they end"


@pytest.mark.parametrize(
    ("zone", "time", "start", "end"),
    [
        ("Europe/Berlin", "2024-03-31 12:00", "2024-03-30 23:00", "2024-03-31 22:00"),  # 23 hours
        ("Europe/Berlin", "2024-10-27 12:00", "2024-10-26 22:00", "2024-10-27 23:00"),  # 25 hours
        ("America/Sao_Paulo", "2018-11-04 03:00", "2018-11-04 03:00", "2018-11-05 02:00"),  # no midnight: starts at 1
        ("America/St_Johns", "2006-10-29 02:45", "2006-10-29 02:30", "2006-10-30 03:30"),  # back to 23:01 at 0:01
        ("Pacific/Apia", "2011-12-30 09:59", "2011-12-29 10:00", "2011-12-30 10:00"),  # the 29th, then the 31st
        ("Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00"),
    ],
)
def test_a_local_day_is_as_long_as_it_was(zone: str, time: str, start: str, end: str) -> None:
    assert windows_of(Tumbling(DAY_US, 0, zone), instant(time)) == {(instant(start), instant(end))}


def test_a_day_that_was_left_out_makes_no_window_of_its_own() -> None:
    left_out = instant("2011-12-30 10:00")
    for windows in (Sliding(3 * DAY_US, DAY_US, 0, "Pacific/Apia"), Cumulating(30 * DAY_US, DAY_US, 0, "Pacific/Apia")):
        for time in (left_out - 2 * DAY_US, left_out - 1, left_out, left_out + DAY_US):
            rows, ends = windows.windows_of_panes(windows.panes(int64s(time)))
            assert len(set(ends.tolist())) == len(rows), f"two windows that end at once: {windows}, {time}"
            assert all(s <= time < e for s, e in windows_of(windows, time)), (windows, time)


def test_times_beyond_the_years_that_a_time_zone_knows_have_windows_too() -> None:
    size = 2000 * DAY_US
    for time in (-(2**61), instant("0001-01-01 00:00"), instant("9999-12-31 00:00"), 2**61):
        for offset in (0, 999 * DAY_US, 1999 * DAY_US):
            ((start, end),) = windows_of(Tumbling(size, offset, "Europe/Berlin"), time)
            assert start <= time < end
            assert end - start == pytest.approx(size, abs=HOUR_US)
            slid = windows_of(Sliding(2 * size, size, offset, "Europe/Berlin"), time)
            assert [start <= time < end for start, end in slid] == [True, True]


def test_a_time_that_no_window_can_be_told_for_is_refused() -> None:
    for time in (TIME_LIMIT_US, -TIME_LIMIT_US):
        with pytest.raises(InvalidJobError, match=rf"so far from now that no window .* greatest_us={time}"):
            Tumbling(HOUR_US).panes(int64s(time))
        with pytest.raises(InvalidJobError, match="Filter such records out"):
            Sliding(HOUR_US, HOUR_US).panes(int64s(time))


def test_no_records_fall_into_no_windows() -> None:
    for windows in (Tumbling(DAY_US, 0, "Europe/Berlin"), Sliding(10, 3), Cumulating(10, 5)):
        panes = windows.panes(int64s())
        assert len(panes) == 0
        assert [len(part) for part in windows.windows_of_panes(panes)] == [0, 0]
