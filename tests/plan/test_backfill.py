"""Bounds of a range of windows, against plain Python; and the reasons why a job's windows cannot be replaced."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.plan.backfill import around
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling
from mixedmode.time.window_range import WindowRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = [
    (Tumbling(10), [(k * 10, k * 10 + 10) for k in range(-20, 20)]),
    (Tumbling(10, 3), [(k * 10 + 3, k * 10 + 13) for k in range(-20, 20)]),
    (Sliding(10, 4), [(k * 4, k * 4 + 10) for k in range(-40, 40)]),
    (Sliding(10, 10, 7), [(k * 10 + 7, k * 10 + 17) for k in range(-20, 20)]),
    (Cumulating(12, 4), [(k * 12, k * 12 + j) for k in range(-20, 20) for j in (4, 8, 12)]),
]


@pytest.mark.parametrize(("windows", "every"), KINDS, ids=lambda kind: type(kind).__name__)
@given(start=st.integers(-40, 40), length=st.integers(1, 60))
def test_around_a_range_is_the_smallest_one_at_which_a_window_begins_and_another_ends(
    windows: TimeWindows, every: list[tuple[int, int]], start: int, length: int
) -> None:
    end = start + length
    first = max(begin for begin, _ in every if begin <= start)
    last = min(over for _, over in every if over >= end)
    assert around(windows, WindowRange(start, end)) == WindowRange(first, last)


def test_days_of_a_time_zone_begin_at_its_midnight() -> None:
    def us(moment: datetime) -> int:
        return (moment - _EPOCH) // timedelta(microseconds=1)

    days = Tumbling(86_400_000_000, 0, "Europe/Berlin")
    start, end = datetime(2024, 3, 30, 23, tzinfo=UTC), datetime(2024, 3, 31, 22, tzinfo=UTC)  # 23 hours
    whole, hour = WindowRange(us(start), us(end)), timedelta(hours=1)
    assert around(days, whole) == whole == around(days, WindowRange(us(start + hour), us(end - hour)))
    assert around(days, WindowRange(us(start), us(end + hour))) == WindowRange(us(start), us(end + timedelta(days=1)))
