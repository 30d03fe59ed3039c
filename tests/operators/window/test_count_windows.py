"""Every so many records of a key, against an oracle that counts them one by one."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.keys import KeySchema
from mixedmode.operators.window import CountWindowAggregateOperator
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.operators.oracle import order_of
from tests.operators.window.runs import AGGREGATOR, FIXED, KEYED, Event, Run, epoch_time, key_values, results_of
from tests.operators.window.stories import Epoch, Story, stories
from tests.random_cases import random_cases

Row = tuple[Any, ...]


def operator_of(count: int, schema: KeySchema | None = KEYED) -> CountWindowAggregateOperator:
    return CountWindowAggregateOperator(AGGREGATOR, schema, count)


def rows_of(windows: dict[Row, list[list[Event]]]) -> dict[Row, Row]:
    return {
        (*key, number): (min(e.time_us for e in part), max(e.time_us for e in part) + 1, *results_of(part))
        for key, parts in windows.items()
        for number, part in enumerate(parts)
    }


def counted(events: list[Event], count: int) -> list[list[Event]]:
    return [events[i : i + count] for i in range(0, len(events) - count + 1, count)]


def arrived(story: Story, schema: KeySchema | None) -> dict[Row, list[Event]]:
    """Records of each key in the order of epochs, then of time."""
    by_key: dict[Row, list[Event]] = {}
    for epoch in story:
        for event in sorted(epoch.events, key=lambda e: (e.time_us, order_of(e.number), order_of(e.text))):
            by_key.setdefault(key_values(schema, event.key), []).append(event)
    return by_key


def spread(story: Story) -> list[Epoch]:
    """The same story, with no two records at the same time."""
    moment = iter(range(10**6))
    return [
        Epoch(tuple(Event(e.key, e.time_us * 1_000 + next(moment), e.number, e.text) for e in epoch.events), epoch.time)
        for epoch in story
    ]


@given(st.integers(1, 5), st.sampled_from([KEYED, FIXED, None]), stories(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=random_cases(40))
def test_each_window_holds_the_next_so_many_records_of_its_key(
    count: int, schema: KeySchema | None, story: Story, parallelism: int, slices: int
) -> None:
    story = spread(story)
    run = Run(operator_of(count, schema), parallelism, slices, with_changelog=True)
    for number, epoch in enumerate(story, 1):
        run.epoch(epoch.events, epoch.time)
        so_far = arrived(story[:number], schema)
        assert run.output.rows == rows_of({key: counted(events, count) for key, events in so_far.items()})
        assert len(run.entries) == len(so_far), "one row of state per key"
    assert run.late == []


@given(st.integers(1, 5), stories(), st.integers(1, 3), st.integers(1, 3), st.randoms())
@settings(max_examples=random_cases(30))
def test_records_of_one_time_are_taken_in_an_order_that_does_not_depend_on_how_they_arrive(
    count: int, story: Story, parallelism: int, slices: int, random: Any
) -> None:
    schema = FIXED
    one, other = Run(operator_of(count, schema), 1, 1), Run(operator_of(count, schema), parallelism, slices)
    for epoch in story:
        events = [Event(e.key, e.time_us // 20, e.number, e.text) for e in epoch.events]
        one.epoch(events, epoch.time)
        random.shuffle(events)
        other.epoch(events, epoch.time)
        assert other.output.rows == one.output.rows
        assert other.entries == one.entries


# --- by example ------------------------------------------------------------------------------------------------------


def test_a_window_fires_at_the_last_record_it_takes_and_the_next_one_begins_empty() -> None:
    run = Run(operator_of(2, None))
    run.epoch([Event(0, 30, 1)], epoch_time(MIN_TIME_US, 0))
    assert run.output.rows == {}
    run.epoch([Event(0, 10, 2), Event(0, 5, 4), Event(0, 7, 8)], epoch_time(20, 20))
    assert run.output.rows == {(0,): (5, 31, 2, 5, "a", 1), (1,): (7, 11, 2, 10, "a", 2)}, "in order of time per epoch"
    assert run.late == [], "however old they are"
    run.epoch([Event(0, 40, 16)], epoch_time(20, MAX_TIME_US))
    assert len(run.output.rows) == 2, "what is not full when the input ends is not given"


def test_a_backlog_that_does_not_fit_the_sorter_is_counted_by_the_whole_key() -> None:
    run = Run(operator_of(100, FIXED), 2, 3, sort_budget_bytes=4_000)
    events = [Event(time % 3, time, time) for time in range(1_200)]
    run.epoch(events[::-1], epoch_time(MIN_TIME_US, 1_200, is_backlog=True, was_backlog=None))
    assert run.output.rows == rows_of({(k,): counted([e for e in events if e.key == k], 100) for k in range(3)})
