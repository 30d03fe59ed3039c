"""Random bits by number: SplitMix64's own, even, and independent of what else is drawn."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.nexmark.draws import PURPOSES, Int64s, UInt64s, draw, high_below, low_below, unit


def test_the_purposes_of_the_first_event_are_the_outputs_of_splitmix64_with_seed_0() -> None:
    bits = [int(draw(np.array([0]), purpose, seed=0)[0]) for purpose in range(5)]
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]
    assert bits == published


@given(
    number=st.integers(0, 2**53 - 1),
    purpose=st.integers(0, PURPOSES - 1),
    seed=st.integers(0, 63),
    ahead=st.integers(1),
)
def test_a_draw_depends_on_number_purpose_and_seed_alone(number: int, purpose: int, seed: int, ahead: int) -> None:
    among_others = np.array([number, ahead % 2**53, 7])
    alone = draw(np.array([number]), purpose, seed)
    assert draw(among_others, purpose, seed)[0] == alone[0]
    assert draw(np.array([number]), (purpose + 1) % PURPOSES, seed)[0] != alone[0]
    assert draw(np.array([number]), purpose, (seed + 1) % 64)[0] != alone[0]


@pytest.mark.parametrize("below", [low_below, high_below])
def test_integers_are_spread_evenly_below_their_limit(below: Callable[[UInt64s, int], Int64s]) -> None:
    found = np.bincount(below(draw(np.arange(100_000), 3, seed=1), 10))
    assert len(found) == 10
    assert abs(found - 10_000).max() < 500


@given(st.lists(st.integers(1, 2**31), min_size=1))
def test_each_number_may_have_a_limit_of_its_own(limits: list[int]) -> None:
    bits = draw(np.arange(len(limits)), 0, seed=2)
    found: Int64s = low_below(bits, np.array(limits))
    assert (found >= 0).all()
    assert (found < np.array(limits)).all()
    assert found.tolist() == [(int(one) % 2**32) * limit >> 32 for one, limit in zip(bits, limits, strict=True)]


def test_doubles_fill_the_unit_interval_without_its_end() -> None:
    found = unit(draw(np.arange(100_000), 0, seed=3))
    assert 0 <= found.min() < 1e-4
    assert 1 - 1e-4 < found.max() < 1
    assert abs(found.mean() - 0.5) < 0.005
    assert unit(np.array([2**64 - 1], np.uint64))[0] < 1
