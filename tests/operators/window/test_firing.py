"""An epoch visits exactly the windows that its watermarks pass, and no window twice over the epochs."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.window.firing import Firing
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.operators.window.runs import epoch_time

watermarks = st.integers(-50, 50) | st.sampled_from([MIN_TIME_US, MAX_TIME_US])


@given(watermarks, watermarks, st.integers(0, 40), st.integers(0, 1), st.integers(-150, 150))
def test_what_is_due_is_what_is_passed_by_the_watermark_or_by_the_lateness_behind_it(
    one: int, other: int, lateness_us: int, margin_us: int, end: int
) -> None:
    late_us, firing_us = min(one, other), max(one, other)
    firing = Firing.of(
        epoch_time(late_us, firing_us), allowed_lateness_us=lateness_us, early_every_ms=None, margin_us=margin_us
    )
    ranges = list(firing.due_ranges())
    assert all(after < up_to for after, up_to in ranges)
    assert all(one[1] < other[0] for one, other in pairwise(ranges)), "apart, and in order"
    fires = late_us < end + margin_us <= firing_us
    is_forgotten = late_us < end + margin_us + lateness_us <= firing_us or (
        firing_us == MAX_TIME_US and end + margin_us + lateness_us > late_us
    )
    assert any(after < end <= up_to for after, up_to in ranges) == (fires or is_forgotten)


@pytest.mark.parametrize(
    ("before_ms", "now_ms", "is_backlog", "expected"),
    [
        (None, 5, False, True),
        (None, 5, True, False),
        (999, 1_000, False, True),
        (1_000, 1_999, False, False),
        (1_999, 5_000, False, True),
        (5_000, 3_000, False, False),
    ],
)
def test_open_windows_are_shown_when_the_clock_passes_a_multiple_of_the_interval(
    before_ms: int | None, now_ms: int, is_backlog: bool, expected: bool
) -> None:
    time = epoch_time(0, 0, clock_ms=now_ms, clock_before_ms=before_ms, is_backlog=is_backlog)
    firing = Firing.of(time, allowed_lateness_us=0, early_every_ms=1_000)
    assert firing.shows_open == expected
    assert firing.may_show_open == (not is_backlog)
    never = Firing.of(time, allowed_lateness_us=0, early_every_ms=None)
    assert not never.shows_open
    assert not never.may_show_open


def test_all_open_windows_are_looked_at_on_demand() -> None:
    firing = Firing.of(epoch_time(10, 20), allowed_lateness_us=5, early_every_ms=1)
    assert list(firing.due_ranges()) == [(5, 20)]
    assert list(firing.due_ranges(with_open=True)) == [(5, MAX_TIME_US)]
    far = Firing.of(epoch_time(10, 12), allowed_lateness_us=100, early_every_ms=1)
    assert list(far.due_ranges()) == [(-90, -88), (10, 12)]
