"""Tumbling, sliding and cumulating windows, epoch by epoch, against an oracle that remembers every record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.window import TimeWindowAggregateOperator
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, Cumulating, Sliding, TimeWindows, Tumbling
from tests.operators.window.runs import (
    AGGREGATOR,
    FIXED,
    KEYED,
    Event,
    Run,
    batch_of,
    epoch_time,
    key_values,
    results_of,
)
from tests.operators.window.stories import Story, events, in_one_backlog, stories, stories_within_the_bound
from tests.random_cases import random_cases

Key = tuple[Any, ...]


def operator_of(
    windows: TimeWindows,
    schema: KeySchema | None = KEYED,
    *,
    lateness_us: int = 0,
    early_every_ms: int | None = None,
    emits_retractions: bool = True,
) -> TimeWindowAggregateOperator:
    return TimeWindowAggregateOperator(AGGREGATOR, schema, windows, lateness_us, early_every_ms, emits_retractions)


def windows_of(windows: TimeWindows, time_us: int) -> list[tuple[int, int]]:
    _, ends = windows.windows_of_panes(windows.panes(np.array([time_us])))
    return list(zip(windows.starts(ends).tolist(), ends.tolist(), strict=True))


class Oracle:
    """The expected contents of the output after each epoch. Keeps all records of all windows, and does not forget."""

    def __init__(self, operator: TimeWindowAggregateOperator) -> None:
        self.operator = operator
        self.windows: dict[Key, list[Event]] = {}  #: {output key: the records that were not too late for it}
        self.shown: dict[Key, tuple[Any, ...]] = {}  #: given early, as of then
        self.late: list[Event] = []
        self.firing_us = MIN_TIME_US

    def epoch(self, events: Sequence[Event], time: Any) -> None:
        for event in events:
            bounds = windows_of(self.operator.windows, event.time_us)
            taken = [b for b in bounds if b[1] + self.operator.allowed_lateness_us > time.late_us]
            for window in taken:
                key = (*window, *key_values(self.operator.key_schema, event.key))
                self.windows.setdefault(key, []).append(event)
            if not taken:
                self.late.append(event)
        self.firing_us = time.firing_us
        every = self.operator.early_every_ms
        before = time.clock_before_ms
        if every and not time.is_backlog and (before is None or time.clock_ms // every > before // every):
            self.shown = {key: results_of(found) for key, found in self.windows.items()}

    @property
    def rows(self) -> dict[Key, tuple[Any, ...]]:
        fired = {key: results_of(found) for key, found in self.windows.items() if key[1] <= self.firing_us}
        return self.shown | fired

    @property
    def kept(self) -> int:
        """Return the number of windows that the state must hold."""
        lateness_us = self.operator.allowed_lateness_us
        return sum(key[1] + lateness_us > self.firing_us for key in self.windows)


def check(operator: TimeWindowAggregateOperator, story: Story, run: Run) -> Run:
    oracle = Oracle(operator)
    for epoch in story:
        run.epoch(epoch.events, epoch.time)
        oracle.epoch(epoch.events, epoch.time)
        assert run.output.rows == oracle.rows
        assert len(run.entries) == oracle.kept, "windows in the state"
        assert sorted(run.late, key=repr) == sorted(oracle.late, key=repr)
    return run


kinds: st.SearchStrategy[TimeWindows] = st.one_of(
    st.builds(Tumbling, st.sampled_from([7, 10]), st.sampled_from([0, 3])),
    st.builds(Sliding, st.just(10), st.sampled_from([2, 3, 5, 10]), st.sampled_from([0, 1])),
    st.builds(Cumulating, st.just(12), st.sampled_from([3, 4]), st.sampled_from([0, 5])),
)
schemas = st.sampled_from([KEYED, FIXED, None])
operators = st.builds(
    operator_of,
    kinds,
    schemas,
    lateness_us=st.sampled_from([0, 4, 25]),
    early_every_ms=st.sampled_from([None, 5]),
    emits_retractions=st.booleans(),
)


@given(operators, stories(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=random_cases(30))
def test_after_every_epoch_the_output_is_what_the_records_so_far_say(
    operator: TimeWindowAggregateOperator, story: Story, parallelism: int, slices: int
) -> None:
    check(operator, story, Run(operator, parallelism, slices, with_changelog=operator.emits_retractions))


@given(operators, stories_within_the_bound(), st.integers(1, 3))
@settings(max_examples=random_cases(30))
def test_however_the_records_are_cut_into_epochs_the_answer_is_that_of_one_backlog(
    operator: TimeWindowAggregateOperator, story: Story, parallelism: int
) -> None:
    in_epochs, at_once = Run(operator, parallelism), Run(operator, 1)
    for epoch in story:
        in_epochs.epoch(epoch.events, epoch.time)
    for epoch in in_one_backlog(story):
        at_once.epoch(epoch.events, epoch.time)
    assert in_epochs.late == [], "nothing is late that is within the bound"
    assert in_epochs.output.rows == at_once.output.rows
    assert not in_epochs.entries, "nothing is kept once everything has fired"
    assert not at_once.entries


@given(stories(max_epochs=4), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=random_cases(15))
def test_parallelism_may_change_between_epochs(story: Story, first: int, second: int) -> None:
    operator = operator_of(Sliding(10, 5), lateness_us=4)
    fixed, changing = Run(operator, 1), Run(operator, first)
    for epoch in story:
        fixed.epoch(epoch.events, epoch.time)
        changing.epoch(epoch.events, epoch.time)
        changing.parallelism = second
        assert changing.output.rows == fixed.output.rows
        assert changing.entries == fixed.entries


@given(stories(), st.sampled_from([None, 5]))
@settings(max_examples=random_cases(25))
def test_a_window_is_given_again_only_when_it_has_changed(story: Story, early_every_ms: int | None) -> None:
    operator = operator_of(Tumbling(10), lateness_us=8, early_every_ms=early_every_ms)
    run = Run(operator)
    for epoch in story:
        before, given = dict(run.output.rows), run.output.given
        run.epoch(epoch.events, epoch.time)
        same = [key for key, row in run.output.rows.items() if before.get(key) == row]
        touched = {
            (*window, *key_values(KEYED, event.key))
            for event in epoch.events
            for window in windows_of(operator.windows, event.time_us)
        }
        # a change that changes no result is given all the same
        assert run.output.given - given <= len(run.output.rows) - len([key for key in same if key not in touched])


# --- what the specification says -------------------------------------------------------------------------------------


def test_of_2500_windows_per_key_2499_fire_in_the_backlog_and_the_last_one_fires_live() -> None:
    """10,000 backlog and 10,000 live records over 2 keys; windows of 4 s."""
    second = 1_000_000
    operator = operator_of(Tumbling(4 * second), FIXED, emits_retractions=False)
    events = [Event(key, 2 * second * i, i) for i in range(10_000) for key in (0, 1)]
    backlog, live = events[:10_000], events[10_000:]
    mixed = Run(operator, 1, sort_budget_bytes=100_000)
    flip_us = backlog[-1].time_us
    mixed.epoch(backlog, epoch_time(MIN_TIME_US, flip_us, is_backlog=True, was_backlog=None))
    assert [sum(key == k for *_, key in mixed.output.rows) for k in (0, 1)] == [2_499, 2_499]
    assert len(mixed.entries) == 2, "the 2,500th window of each key, open across the flip"
    watermark_us = flip_us
    for start in range(0, len(live), 1_000):
        part = live[start : start + 1_000]
        mixed.epoch(part, epoch_time(watermark_us, part[-1].time_us, was_backlog=start == 0))
        watermark_us = part[-1].time_us
        if start == 0:
            assert mixed.output.rows[(9_996 * second, 10_000 * second, 0)] == (2, 4_998 + 4_999, "a", 4_999)
    mixed.epoch([], epoch_time(watermark_us, MAX_TIME_US))
    streaming = Run(operator, 1)
    watermark_us = MIN_TIME_US
    for start in range(0, len(events), 2_000):
        part = events[start : start + 2_000]
        streaming.epoch(part, epoch_time(watermark_us, part[-1].time_us))
        watermark_us = part[-1].time_us
    streaming.epoch([], epoch_time(watermark_us, MAX_TIME_US))
    assert mixed.output.rows == streaming.output.rows
    assert len(mixed.output.rows) == mixed.output.given == 10_000


# --- by example ------------------------------------------------------------------------------------------------------


def test_a_window_fires_when_the_watermark_reaches_its_end() -> None:
    run = Run(operator_of(Tumbling(10), None))
    run.epoch([Event(0, 3, 5)], epoch_time(MIN_TIME_US, 9))
    assert run.output.rows == {}, "one microsecond is missing"
    run.epoch([], epoch_time(9, 10))
    assert run.output.rows == {(0, 10): (1, 5, "a", 5)}
    assert not run.entries


def test_a_late_but_allowed_record_changes_a_window_that_has_fired() -> None:
    run = Run(operator_of(Tumbling(10), None, lateness_us=5), with_changelog=True)
    run.epoch([Event(0, 3, 5)], epoch_time(MIN_TIME_US, 12))
    run.epoch([Event(0, 4, 7)], epoch_time(12, 14))
    assert run.output.rows == {(0, 10): (2, 12, "a", 7)}
    run.epoch([Event(0, 5, 1)], epoch_time(14, 15))
    assert run.output.rows == {(0, 10): (3, 13, "a", 1)}, "changed and forgotten in the same epoch"
    assert not run.entries
    run.epoch([Event(0, 6, 1)], epoch_time(15, 15))
    assert run.late == [Event(0, 6, 1)]


def test_a_record_may_be_late_for_some_of_its_windows_only() -> None:
    run = Run(operator_of(Sliding(10, 5), None))
    run.epoch([Event(0, 6)], epoch_time(12, MAX_TIME_US))
    assert list(run.output.rows) == [(5, 15)]
    assert run.late == []


def test_open_windows_are_given_early_by_the_clock_and_once_more_when_they_fire() -> None:
    run = Run(operator_of(Tumbling(10), None, early_every_ms=1_000), with_changelog=True)
    run.epoch([Event(0, 3, 5)], epoch_time(MIN_TIME_US, 0, is_backlog=True, was_backlog=None))
    assert run.output.rows == {}, "never in backlog"
    run.epoch([], epoch_time(0, 0, clock_ms=1_500))
    assert run.output.rows == {(0, 10): (1, 5, "a", 5)}, "unchanged since the backlog, but not given yet"
    run.epoch([Event(0, 4, 1)], epoch_time(0, 0, clock_ms=1_999, clock_before_ms=1_500))
    assert run.output.rows == {(0, 10): (1, 5, "a", 5)}, "not before the next second"
    run.epoch([], epoch_time(0, 0, clock_ms=2_000, clock_before_ms=1_999))
    assert run.output.rows == {(0, 10): (2, 6, "a", 1)}
    run.epoch([], epoch_time(0, 10, clock_ms=2_500, clock_before_ms=2_000))
    assert run.output.given == 2, "what was given early and is final now is not given again"
    assert not run.entries


def test_windows_that_fired_in_a_backlog_that_ended_at_the_end_of_time_begin_anew() -> None:
    """end-of-key-watermark: max. The watermark itself is where the records are."""
    run = Run(operator_of(Tumbling(10), None))
    run.epoch([Event(0, 3)], epoch_time(MIN_TIME_US, MAX_TIME_US, is_backlog=True, was_backlog=None))
    assert list(run.output.rows) == [(0, 10)]
    assert not run.entries
    run.epoch([Event(0, 15)], epoch_time(3, 15, was_backlog=True))
    assert len(run.entries) == 1
    run.epoch([], epoch_time(15, 20))
    assert list(run.output.rows) == [(0, 10), (10, 20)]


@pytest.mark.parametrize("schema", [KEYED, FIXED, None])
def test_an_epoch_without_records_and_without_anything_due_does_nothing(schema: KeySchema | None) -> None:
    run = Run(operator_of(Tumbling(10), schema, lateness_us=3, early_every_ms=7))
    run.epoch([], epoch_time(MIN_TIME_US, MIN_TIME_US))
    run.epoch([], epoch_time(MIN_TIME_US, 5))
    assert run.output.rows == {}
    assert not run.entries


@given(kinds, schemas, st.lists(events, max_size=8), st.integers(-20, 60), st.integers(-30, 60))
def test_records_of_one_time_are_folded_as_those_of_several_times(
    windows: TimeWindows, schema: KeySchema | None, records: list[Event], time_us: int, late_us: int
) -> None:
    """Windows of processing time: the clock is the time of every record."""
    batch = batch_of([replace(one, time_us=time_us) for one in records], schema)
    by_time, by_clock = (
        replace(operator_of(windows, schema), by_clock=by_clock).fold(batch, late_us=late_us, max_parallelism=8)
        for by_clock in (False, True)
    )
    assert by_clock.table.equals(by_time.table)
    assert by_clock.late_rows.tolist() == by_time.late_rows.tolist()
