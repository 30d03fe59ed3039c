"""Bounds of a range of windows, against plain Python; and the reasons why a job's windows cannot be replaced."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.plan.backfill import has_bounds
from mixedmode.time import Cumulating, Sliding, TimeWindows, Tumbling
from mixedmode.time.window_range import WindowRange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = [
    (Tumbling(10), [(k * 10, k * 10 + 10) for k in range(-20, 20)]),
    (Tumbling(10, 3), [(k * 10 + 3, k * 10 + 13) for k in range(-20, 20)]),
    (Sliding(10, 4), [(k * 4, k * 4 + 10) for k in range(-40, 40)]),
    (Cumulating(12, 4), [(k * 12, k * 12 + j) for k in range(-20, 20) for j in (4, 8, 12)]),
]


@pytest.mark.parametrize(("windows", "every"), KINDS, ids=lambda kind: type(kind).__name__)
@given(start=st.integers(-40, 40), length=st.integers(1, 60))
def test_a_range_has_bounds_if_a_window_begins_and_another_ends_there(
    windows: TimeWindows, every: list[tuple[int, int]], start: int, length: int
) -> None:
    end = start + length
    expected = any(begin == start for begin, _ in every) and any(over == end for _, over in every)
    assert has_bounds(windows, WindowRange(start, end)) == expected


def test_days_of_a_time_zone_begin_at_its_midnight() -> None:
    def us(moment: datetime) -> int:
        return (moment - _EPOCH) // timedelta(microseconds=1)

    days = Tumbling(86_400_000_000, 0, "Europe/Berlin")
    start, end = datetime(2024, 3, 30, 23, tzinfo=UTC), datetime(2024, 3, 31, 22, tzinfo=UTC)  # 23 hours
    assert has_bounds(days, WindowRange(us(start), us(end)))
    assert not has_bounds(days, WindowRange(us(start), us(end + timedelta(hours=1))))
