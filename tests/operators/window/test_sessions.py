"""Sessions, epoch by epoch, against an oracle that merges them one record at a time."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema
from mixedmode.operators.window import SessionAggregateOperator
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, EpochTime
from mixedmode.time.windows import TIME_LIMIT_US
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
from tests.operators.window.stories import Story, in_one_backlog, stories, stories_within_the_bound
from tests.random_cases import random_cases

Row = tuple[Any, ...]


def operator_of(
    gap_us: int = 5,
    schema: KeySchema | None = KEYED,
    *,
    lateness_us: int = 0,
    early_every_ms: int | None = None,
    emits_retractions: bool = True,
) -> SessionAggregateOperator:
    return SessionAggregateOperator(AGGREGATOR, schema, gap_us, lateness_us, early_every_ms, emits_retractions)


@dataclass
class Session:
    start: int
    end: int
    events: list[Event]
    shown: Row | None = None  #: its key in the output


class Oracle:
    """The expected contents of the output after each epoch."""

    def __init__(self, operator: SessionAggregateOperator) -> None:
        self.operator = operator
        self.sessions: dict[int, list[Session]] = {}
        self.rows: dict[Row, Row] = {}
        self.late: list[Event] = []

    def epoch(self, events: tuple[Event, ...], time: EpochTime) -> None:
        gap, lateness = self.operator.gap_us, self.operator.allowed_lateness_us
        changed: dict[int, list[Session]] = {}
        for event in events:
            if event.time_us + gap + lateness <= time.late_us:
                self.late.append(event)
            else:
                changed.setdefault(event.key, []).append(Session(event.time_us, event.time_us + gap, [event]))
        retracted = [self._merge(key, new) for key, new in changed.items()]
        self._show(time, [session for found in retracted for session in found], changed)
        for key, sessions in self.sessions.items():
            final = time.firing_us == MAX_TIME_US
            self.sessions[key] = [s for s in sessions if not final and s.end + lateness >= time.firing_us]

    def _merge(self, key: int, new: list[Session]) -> list[Session]:
        """Merges until nothing touches; the sessions whose row was retracted by it."""
        replaced = []
        for arrived in new:
            joined = arrived
            for other in list(self.sessions.get(key, [])):
                if other.start <= joined.end and joined.start <= other.end:
                    self.sessions[key].remove(other)
                    bounds = (min(joined.start, other.start), max(joined.end, other.end))
                    same = bounds == (other.start, other.end)
                    lost = joined if same else other
                    if joined.shown is not None or other.shown is not None:
                        keeper = other.shown if same else None
                        if lost.shown is not None:
                            del self.rows[lost.shown]
                        joined = Session(*bounds, joined.events + other.events, keeper)
                        if keeper is None:
                            replaced.append(joined)
                    else:
                        joined = Session(*bounds, joined.events + other.events)
            self.sessions.setdefault(key, []).append(joined)
        for session in self.sessions.get(key, []):
            session.events.sort(key=repr)
        return replaced

    def _show(self, time: EpochTime, replaced: list[Session], changed: dict[int, list[Session]]) -> None:
        every, before = self.operator.early_every_ms, time.clock_before_ms
        may_show = every is not None and not time.is_backlog
        strikes = may_show and (before is None or time.clock_ms // every > before // every)  # type: ignore[operator]
        for key, sessions in self.sessions.items():
            for session in sessions:
                has_successor = any(
                    session.start <= old.start and old.end <= session.end
                    for old in replaced
                    if old.events[0].key == key
                )
                if session.end < time.firing_us or strikes or (may_show and has_successor):
                    row = (session.start, session.end, *key_values(self.operator.key_schema, key))
                    self.rows[row] = results_of(session.events)
                    session.shown = row


def check(operator: SessionAggregateOperator, story: Story, run: Run) -> None:
    oracle = Oracle(operator)
    for epoch in story:
        run.epoch(epoch.events, epoch.time)
        oracle.epoch(epoch.events, epoch.time)
        assert run.output.rows == oracle.rows
        assert len(run.entries) == 2 * sum(map(len, oracle.sessions.values())), "sessions and their ends in the state"
        assert sorted(run.late, key=repr) == sorted(oracle.late, key=repr)


def sessions_of(story: Story, gap_us: int, schema: KeySchema | None) -> dict[Row, Row]:
    """All sessions of all records, whenever they came."""
    rows = {}
    by_key: dict[Row, list[Event]] = {}
    for epoch in story:
        for event in epoch.events:
            by_key.setdefault(key_values(schema, event.key), []).append(event)
    for key, events in by_key.items():
        events.sort(key=lambda event: event.time_us)
        cuts = [i for i, (a, b) in enumerate(pairwise(events), 1) if b.time_us - a.time_us > gap_us]
        for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
            part = events[start:end]
            rows[(part[0].time_us, part[-1].time_us + gap_us, *key)] = results_of(part)
    return rows


@given(
    st.integers(1, 12),
    st.sampled_from([KEYED, FIXED]),
    st.sampled_from([0, 4, 25]),
    st.sampled_from([None, 5]),
    st.booleans(),
    stories(),
    st.integers(1, 3),
    st.integers(1, 3),
)
@settings(max_examples=random_cases(30))
def test_after_every_epoch_the_output_is_what_the_records_so_far_say(
    gap_us: int,
    schema: KeySchema,
    lateness_us: int,
    early_every_ms: int | None,
    emits_retractions: bool,
    story: Story,
    parallelism: int,
    slices: int,
) -> None:
    operator = operator_of(
        gap_us, schema, lateness_us=lateness_us, early_every_ms=early_every_ms, emits_retractions=emits_retractions
    )
    check(operator, story, Run(operator, parallelism, slices, with_changelog=emits_retractions))


@given(st.integers(1, 12), st.sampled_from([KEYED, FIXED, None]), stories_within_the_bound(), st.integers(1, 3))
@settings(max_examples=random_cases(20))
def test_however_the_records_are_cut_into_epochs_the_answer_is_that_of_one_backlog(
    gap_us: int, schema: KeySchema | None, story: Story, parallelism: int
) -> None:
    operator = operator_of(gap_us, schema)
    in_epochs, at_once = Run(operator, parallelism, with_changelog=True), Run(operator, 1)
    for epoch in story:
        in_epochs.epoch(epoch.events, epoch.time)
    for epoch in in_one_backlog(story):
        at_once.epoch(epoch.events, epoch.time)
    expected = sessions_of(story, gap_us, schema)
    assert in_epochs.late == [], "nothing is late that is within the bound"
    assert in_epochs.output.rows == expected
    assert in_epochs.output.given == len(expected), "each session once"
    assert at_once.output.rows == expected
    assert not in_epochs.entries, "nothing is kept once everything has fired"
    assert not at_once.entries


# --- by example ------------------------------------------------------------------------------------------------------


def test_a_late_record_joins_two_sessions_that_have_fired() -> None:
    run = Run(operator_of(5, None, lateness_us=100), with_changelog=True)
    run.epoch([Event(0, 0, 1), Event(0, 9, 2)], epoch_time(MIN_TIME_US, 40))
    assert run.output.rows == {(0, 5): (1, 1, "a", 1), (9, 14): (1, 2, "a", 2)}
    run.epoch([Event(0, 4, 4)], epoch_time(40, 40))
    assert run.output.rows == {(0, 14): (3, 7, "a", 2)}, "two rows retracted, one given"
    assert run.output.given == 5


def test_a_late_record_that_prolongs_a_session_beyond_the_watermark_takes_its_row_back_until_it_fires() -> None:
    run = Run(operator_of(5, None, lateness_us=100), with_changelog=True)
    run.epoch([Event(0, 0, 1)], epoch_time(MIN_TIME_US, 6))
    assert list(run.output.rows) == [(0, 5)]
    run.epoch([Event(0, 4, 1)], epoch_time(6, 6))
    assert run.output.rows == {}
    run.epoch([], epoch_time(6, 10))
    assert list(run.output.rows) == [(0, 9)]


def test_a_record_at_the_end_of_a_session_belongs_to_it_and_one_after_it_does_not() -> None:
    run = Run(operator_of(5, None))
    run.epoch([Event(0, 0)], epoch_time(MIN_TIME_US, 5))
    assert run.output.rows == {}, "a record at 5, which is not late, would still belong to it"
    run.epoch([Event(0, 5)], epoch_time(5, 5))
    run.epoch([Event(0, 11)], epoch_time(5, MAX_TIME_US))
    assert list(run.output.rows) == [(0, 10), (11, 16)]


def test_a_record_that_is_over_by_itself_is_late_although_a_session_would_hold_it() -> None:
    run = Run(operator_of(5, None))
    run.epoch([Event(0, 0), Event(0, 4), Event(0, 8)], epoch_time(MIN_TIME_US, 7))
    run.epoch([Event(0, 2), Event(0, 3)], epoch_time(7, MAX_TIME_US))
    assert run.late == [Event(0, 2)]
    assert run.output.rows == {(0, 13): (4, 4, "a", 1)}


def test_sessions_that_have_grown_are_given_early_by_the_clock() -> None:
    run = Run(operator_of(5, None, early_every_ms=1_000), with_changelog=True)
    run.epoch([Event(0, 0)], epoch_time(MIN_TIME_US, 0, is_backlog=True, was_backlog=None))
    assert run.output.rows == {}, "never in backlog"
    run.epoch([], epoch_time(0, 0, clock_ms=1_500))
    assert list(run.output.rows) == [(0, 5)]
    run.epoch([Event(0, 3)], epoch_time(0, 0, clock_ms=1_600, clock_before_ms=1_500))
    assert list(run.output.rows) == [(0, 8)], "a row that is retracted has its successor in the same epoch"
    run.epoch([Event(0, 1, 9)], epoch_time(0, 0, clock_ms=1_700, clock_before_ms=1_600))
    assert run.output.rows == {(0, 8): (2, 2, "a", 1)}, "within its bounds it waits for the next second"
    run.epoch([], epoch_time(0, 0, clock_ms=2_000, clock_before_ms=1_700))
    assert run.output.rows == {(0, 8): (3, 11, "a", 1)}
    given = run.output.given
    run.epoch([], epoch_time(0, 9, clock_ms=2_100, clock_before_ms=2_000))
    assert run.output.given == given, "what was given early and is final now is not given again"
    assert not run.entries


def test_many_keys_in_several_key_groups_write_their_ends_in_order() -> None:
    operator = operator_of(5, FIXED)
    run = Run(operator, 1, sort_budget_bytes=2_000)
    story = [Event(key, (key * 7) % 50) for key in range(300)]
    run.epoch(story, epoch_time(MIN_TIME_US, 0, is_backlog=True, was_backlog=None))
    assert len(run.entries) == 600
    run.epoch([], epoch_time(0, MAX_TIME_US))
    assert len(run.output.rows) == 300
    assert not run.entries


def test_a_time_that_no_session_can_be_told_for_is_refused() -> None:
    with pytest.raises(InvalidJobError, match="so far from now that no window can be told for it"):
        operator_of().fold(batch_of([Event(0, TIME_LIMIT_US)], KEYED), late_us=0, max_parallelism=8)
