"""Key-group ranges: every group has exactly one owner."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import MAX_PARALLELISM_LIMIT, KeyGroupRange, group_range

COUNTS = st.integers(1, MAX_PARALLELISM_LIMIT).flatmap(lambda m: st.tuples(st.integers(1, min(m, 300)), st.just(m)))


@given(COUNTS)
def test_ranges_of_all_subtasks_are_disjoint_and_cover_every_group(counts: tuple[int, int]) -> None:
    parallelism, max_parallelism = counts
    ranges = [group_range(i, parallelism=parallelism, max_parallelism=max_parallelism) for i in range(parallelism)]
    assert ranges[0].start == 0, "the first range starts at group 0"
    assert ranges[-1].end == max_parallelism, "the last range ends at the number of groups"
    assert all(a.end == b.start for a, b in pairwise(ranges)), "no gap and no overlap"
    assert all(r.start < r.end for r in ranges), "with parallelism <= max_parallelism every subtask owns a group"


def test_group_range_of_four_subtasks_over_ten_groups_is_pinned() -> None:
    found = [group_range(i, parallelism=4, max_parallelism=10) for i in range(4)]
    assert found == [KeyGroupRange(0, 3), KeyGroupRange(3, 5), KeyGroupRange(5, 8), KeyGroupRange(8, 10)]


@pytest.mark.parametrize("max_parallelism", [0, -1, MAX_PARALLELISM_LIMIT + 1])
def test_max_parallelism_outside_the_range_is_refused(max_parallelism: int) -> None:
    with pytest.raises(InvalidJobError) as caught:
        group_range(0, parallelism=1, max_parallelism=max_parallelism)
    assert str(caught.value) == (
        "max_parallelism is outside the supported range, and it cannot change once state exists. "
        f"Set it between 1 and 32768 in the job file. max_parallelism={max_parallelism}"
    )


@pytest.mark.parametrize("parallelism", [0, 9])
def test_parallelism_above_max_parallelism_or_below_one_is_refused(parallelism: int) -> None:
    with pytest.raises(InvalidJobError) as caught:
        group_range(0, parallelism=parallelism, max_parallelism=8)
    assert str(caught.value) == (
        "a subtask without a key group would never receive data. Set `parallelism` between 1 and max_parallelism. "
        f"parallelism={parallelism}, max_parallelism=8"
    )
