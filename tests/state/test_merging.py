"""The choice of runs to merge: few runs, little rewriting, only neighbours; simulated over 10,000 epochs."""

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.state.merging import FAN_IN, decide_merge

EPOCHS = 10_000


def merged_size(sizes: list[int], keys: int) -> int:
    """Expected distinct keys when each run holds random ones of `keys`."""
    missing = math.prod(1 - min(1.0, size / keys) for size in sizes)
    return max(*sizes, int(keys * (1 - missing)))


@pytest.mark.parametrize(
    ("backlog", "keys", "delta"),
    [
        pytest.param(200_000, 200_000, lambda _: 16_000, id="a steady set of keys"),
        pytest.param(1_000_000, 1_000_000, lambda _: 10_000, id="one key in a hundred each epoch"),
        pytest.param(0, 10**12, lambda _: 1_000, id="new keys only"),
        pytest.param(10**6, 10**6, lambda rng: rng.randint(1, 5_000), id="epochs of many sizes"),
        pytest.param(10**7, 10**9, lambda rng: rng.choice([10, 100, 1_000, 10_000]), id="bursts"),
        pytest.param(0, 100, lambda _: 100, id="every key in every epoch"),
    ],
)
def test_runs_stay_few_and_entries_are_rewritten_seldom(
    backlog: int, keys: int, delta: Callable[[Random], int]
) -> None:
    rng = Random(1)
    runs = [backlog] if backlog else []
    written = rewritten = most_runs = 0
    for _ in range(EPOCHS):
        runs.append(delta(rng))
        written += runs[-1]
        start = decide_merge(runs)
        if start is not None:
            runs[start:] = [merged_size(runs[start:], keys)]
            rewritten += runs[start]
        most_runs = max(most_runs, len(runs))
    assert most_runs <= 3 * FAN_IN + math.log2(written)
    assert rewritten / written < 6


@given(st.lists(st.integers(1, 10**6), max_size=40))
def test_a_merge_takes_the_newest_runs_and_stops_before_one_that_is_larger_than_all_of_them(sizes: list[int]) -> None:
    start = decide_merge(sizes)
    if start is None:
        return
    assert len(sizes) - start >= FAN_IN
    assert start == 0 or sizes[start - 1] > sum(sizes[start:])


@pytest.mark.parametrize("sizes", [[], [5], [100, *[1] * (FAN_IN - 1)]])
def test_few_runs_are_left_alone(sizes: list[int]) -> None:
    assert decide_merge(sizes) is None
