"""The times that an epoch's watermark passes, also at both ends of the type."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime

ENDS = [MIN_TIME_US, MIN_TIME_US + 1, MIN_TIME_US + 2, -1, 0, 1, MAX_TIME_US - 2, MAX_TIME_US - 1, MAX_TIME_US]
TIMES = st.one_of(st.sampled_from(ENDS), st.integers(MIN_TIME_US, MAX_TIME_US))


def _time(late_us: int, firing_us: int) -> EpochTime:
    return EpochTime(late_us, firing_us, 0, 0, is_backlog=False, was_backlog=False)


@given(TIMES, TIMES, TIMES)
def test_the_range_of_an_epoch_has_the_times_that_have_passed_and_had_not_before(
    time: int, one: int, other: int
) -> None:
    late_us, firing_us = sorted((one, other))
    epoch, times = _time(late_us, firing_us), np.array([time])
    after_us, up_to_us = epoch.passed_us
    passes = epoch.has_passed(times)[0] and not _time(late_us, late_us).has_passed(times)[0]
    assert (after_us < time <= up_to_us) == passes
