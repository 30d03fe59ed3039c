"""The fan-out of an epoch: counted by subtask, merged, and read as a percentile."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.operators.fan_out import FanOut

COUNTS = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 10**9)), max_size=40)


@given(parts=st.lists(COUNTS, max_size=4), share=st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_at_most_an_eighth_too_high_and_the_greatest_is_exact(
    parts: list[list[int]], share: float
) -> None:
    whole = FanOut()
    for part in parts:
        own = FanOut()
        own.count(np.array(part[: len(part) // 2], np.int64))
        own.count(np.array(part[len(part) // 2 :], np.int64))
        whole.add(FanOut.decode(own.encode()))
    every = sorted(value for part in parts for value in part)
    assert whole.greatest == max(every, default=0)
    exact = next((value for rank, value in enumerate(every, 1) if rank >= share * len(every)), 0)
    assert exact <= whole.percentile(share) <= exact * 9 / 8


def test_counts_up_to_16_are_exact() -> None:
    found = FanOut()
    found.count(np.arange(18))
    assert found.rows == {**dict.fromkeys(range(17), 1), 18: 1}
