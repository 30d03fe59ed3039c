"""Watermarks: by example what the specification says, by property what must hold whatever a job sees."""

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.time import (
    MAX_TIME_US,
    MIN_TIME_US,
    Seen,
    Split,
    SplitProgress,
    Strategy,
    WatermarkState,
    advance,
    merge_seen,
    source_watermarks,
    within_reach,
)

BOUND_US = 10
PLAIN = Strategy(BOUND_US, None, None)
IDLE = Strategy(BOUND_US, 1_000, None)


def after(
    state: WatermarkState,
    seen: Mapping[Split, int | None],
    strategies: Mapping[str, Strategy],
    clock_ms: int = 0,
) -> WatermarkState:
    """One record of each time."""
    return advance(state, {split: Seen(1, time) for split, time in seen.items()}, strategies, clock_ms)


# --- what the specification says -------------------------------------------------------------------------------------


def test_the_watermark_is_the_greatest_event_time_minus_the_bound() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", ""): 100}, {"a": PLAIN})
    assert state.watermark_us == 90
    assert after(state, {("a", ""): 50}, {"a": PLAIN}).watermark_us == 90, "an older record moves nothing back"
    assert after(state, {("a", ""): 101}, {"a": PLAIN}).watermark_us == 91


def test_the_job_stands_at_its_slowest_source() -> None:
    strategies = {"a": PLAIN, "b": Strategy(0, None, None)}
    state = after(WatermarkState.initial(["a", "b"], 0), {("a", ""): 100, ("b", ""): 70}, strategies)
    assert state.watermark_us == 70
    assert source_watermarks(state, strategies, 0) == {"a": 90, "b": 70}


def test_a_source_stands_at_its_slowest_partition() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", "0"): 100, ("a", "1"): 40}, {"a": PLAIN})
    assert state.watermark_us == 30
    assert sorted(state.splits) == [("a", "0"), ("a", "1")], "the stand-in of the source goes with its first partition"


def test_a_source_that_has_given_nothing_holds_the_watermark_back_until_it_is_idle() -> None:
    strategies = {"a": IDLE, "b": IDLE}
    state = after(WatermarkState.initial(["a", "b"], 5_000), {("a", ""): 100}, strategies, 5_999)
    assert state.watermark_us == MIN_TIME_US, "b may still begin anywhere"
    assert source_watermarks(state, strategies, 5_999) == {"a": 90, "b": MIN_TIME_US}
    state = after(state, {("a", ""): 101}, strategies, 6_000)
    assert state.watermark_us == 91, "b has been silent for its timeout"
    assert source_watermarks(state, strategies, 6_000) == {"a": 91, "b": None}


def test_a_source_without_an_idle_timeout_holds_the_watermark_back_for_ever() -> None:
    strategies = {"a": IDLE, "b": PLAIN}
    state = after(WatermarkState.initial(["a", "b"], 0), {("a", ""): 100}, strategies, 10**9)
    assert state.watermark_us == MIN_TIME_US


def test_an_idle_partition_is_passed_over_and_counts_again_when_it_is_back() -> None:
    strategies = {"a": IDLE}
    state = after(WatermarkState.initial(["a"], 0), {("a", "0"): 100, ("a", "1"): 40}, strategies, 0)
    state = after(state, {("a", "0"): 200}, strategies, 999)
    assert state.watermark_us == 30, "partition 1 is not idle yet"
    state = after(state, {("a", "0"): 300}, strategies, 1_000)
    assert state.watermark_us == 290
    state = after(state, {("a", "0"): 400, ("a", "1"): 320}, strategies, 1_001)
    assert state.watermark_us == 310, "partition 1 holds the source again"
    state = after(state, {("a", "1"): 250}, strategies, 1_002)
    assert state.watermark_us == 310, "and a late record does not move it back"


def test_the_watermark_stays_when_every_source_is_idle() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", ""): 100}, {"a": IDLE}, 0)
    later = advance(state, {}, {"a": IDLE}, 10**6)
    assert later == state


def test_a_partition_that_appears_late_does_not_move_the_watermark_back() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", "0"): 100}, {"a": PLAIN})
    state = after(state, {("a", "1"): 20, ("a", "0"): 500}, {"a": PLAIN})
    assert state.watermark_us == 90, "it holds the source where it is"
    assert after(state, {("a", "1"): 450}, {"a": PLAIN}).watermark_us == 440


def test_records_too_far_ahead_keep_a_source_from_being_idle_and_do_nothing_else() -> None:
    strategies = {"a": IDLE, "b": IDLE}
    state = after(WatermarkState.initial(["a", "b"], 0), {("a", ""): 100, ("b", ""): 60}, strategies, 0)
    state = after(state, {("a", ""): 200, ("b", ""): None}, strategies, 1_500)
    assert state.watermark_us == 50
    assert state.splits["b", ""] == SplitProgress(60, 1_500)


def test_a_partition_may_be_the_empty_text() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", ""): 40, ("a", "1"): 100}, {"a": PLAIN})
    assert state.watermark_us == 30


@pytest.mark.parametrize(
    ("time_us", "expected"), [(1_000, True), (3_000_000, True), (3_000_001, False), (MIN_TIME_US, True)]
)
def test_a_time_is_within_reach_up_to_max_ahead_of_the_clock(time_us: int, expected: bool) -> None:
    assert within_reach(np.array([time_us]), 1_000, 2_000).tolist() == [expected]


def test_every_time_is_within_reach_without_a_limit_and_with_one_beyond_all_times() -> None:
    times = np.array([MIN_TIME_US, 0, MAX_TIME_US])
    assert within_reach(times, 0, None).all()
    assert within_reach(times, 10**17, 10**17).all(), "the limit itself would not fit an int64"


def test_the_bound_does_not_lead_past_the_first_time_there_is() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", ""): MIN_TIME_US + 3}, {"a": PLAIN})
    assert state.watermark_us == MIN_TIME_US


def test_a_record_at_the_last_time_there_is_does_not_end_the_job() -> None:
    state = after(WatermarkState.initial(["a"], 0), {("a", ""): MAX_TIME_US}, {"a": Strategy(0, None, None)})
    assert state.watermark_us == MAX_TIME_US - 1


# --- what holds whatever is seen -------------------------------------------------------------------------------------

SOURCES = ("a", "b")
splits = st.tuples(st.sampled_from(SOURCES), st.sampled_from(["", "0", "1"]))
seen_parts = st.tuples(splits, st.builds(Seen, st.integers(0, 3), st.none() | st.integers(-100, 100)))
epochs = st.lists(st.tuples(st.lists(seen_parts, max_size=5), st.integers(-3_000, 3_000)), max_size=8)
strategies_of = st.fixed_dictionaries(
    {s: st.builds(Strategy, st.integers(0, 30), st.none() | st.integers(1, 2_000), st.none()) for s in SOURCES}
)


def whole(parts: Sequence[tuple[Split, Seen]]) -> dict[Split, Seen]:
    together: dict[Split, Seen] = {}
    for split, part in parts:
        together[split] = merge_seen(together[split], part) if split in together else part
    return together


@given(epochs, strategies_of)
def test_the_watermark_never_regresses(
    run: list[tuple[list[tuple[Split, Seen]], int]], strategies: dict[str, Strategy]
) -> None:
    state = WatermarkState.initial(SOURCES, 0)
    for parts, clock_ms in run:
        later = advance(state, whole(parts), strategies, clock_ms)
        assert later.watermark_us >= state.watermark_us, (state, later)
        state = later


@given(epochs, st.integers(-3_000, 3_000))
@example([([], 3_000), ([(("b", ""), Seen(1, 5))], 3_000)], -3_000)  # the clock was ahead, and is corrected
def test_a_silent_source_is_idle_after_its_timeout_whatever_the_clock_said_before(
    run: list[tuple[list[tuple[Split, Seen]], int]], now_ms: int
) -> None:
    strategies = dict.fromkeys(SOURCES, IDLE)
    state = WatermarkState.initial(SOURCES, 0)
    for parts, clock_ms in [*run, ([], now_ms)]:
        state = advance(state, whole(parts), strategies, clock_ms)
    assert source_watermarks(state, strategies, now_ms + 1_000) == dict.fromkeys(SOURCES)


@given(st.lists(seen_parts, max_size=8), st.randoms(), strategies_of)
def test_it_does_not_matter_in_which_order_the_parts_of_an_epoch_meet(
    parts: list[tuple[Split, Seen]], random: Random, strategies: dict[str, Strategy]
) -> None:
    state = WatermarkState.initial(SOURCES, 0)
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert advance(state, whole(parts), strategies, 7) == advance(state, whole(shuffled), strategies, 7)


@given(st.lists(st.builds(Seen, st.integers(0, 9), st.none() | st.integers()), min_size=3, max_size=3))
def test_merging_what_was_seen_is_associative(parts: list[Seen]) -> None:
    a, b, c = parts
    assert merge_seen(merge_seen(a, b), c) == merge_seen(a, merge_seen(b, c)) == reduce(merge_seen, [c, a, b])


@given(epochs, strategies_of)
def test_a_restart_from_the_state_as_json_changes_nothing(
    run: list[tuple[list[tuple[Split, Seen]], int]], strategies: dict[str, Strategy]
) -> None:
    state = restarted = WatermarkState.initial(SOURCES, 0)
    for parts, clock_ms in run:
        state = advance(state, whole(parts), strategies, clock_ms)
        restarted = advance(read(written(restarted)), whole(parts), strategies, clock_ms)
    assert restarted == state


def written(state: WatermarkState) -> str:
    rows = [[*split, p.max_time_us, p.active_ms] for split, p in state.splits.items()]
    return json.dumps([rows, state.watermark_us])


def read(text: str) -> WatermarkState:
    rows, watermark_us = json.loads(text)
    return WatermarkState({(s, p): SplitProgress(time, clock) for s, p, time, clock in rows}, watermark_us)


@given(st.lists(st.tuples(splits, st.integers(-100, 100)), min_size=1, max_size=20), st.integers(0, 30))
def test_without_timeouts_the_watermark_is_the_least_over_splits_of_the_greatest_time_minus_the_bound(
    records: list[tuple[Split, int]], bound_us: int
) -> None:
    strategies = {source: Strategy(bound_us, None, None) for source in SOURCES}
    state = WatermarkState.initial(SOURCES, 0)
    expected = MIN_TIME_US
    greatest: dict[Split, int] = {}
    for split, time in records:
        state = after(state, {split: time}, strategies)
        greatest[split] = max(greatest.get(split, time), time)
        if {source for source, _ in greatest} == set(SOURCES):
            expected = max(expected, min(greatest.values()) - bound_us)
        assert state.watermark_us == expected, (split, time)
