"""Windows over rows that are retracted before their windows fire, against plain Python."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.aggregate import MultisetAggregator
from mixedmode.operators.window import SessionAggregateOperator, TimeWindowAggregateOperator
from mixedmode.testing import AggregateHarness
from mixedmode.time import MAX_TIME_US, MIN_TIME_US, Tumbling
from tests.differential.timelines import flat
from tests.operators.window.runs import AGGREGATOR, KEYED, Event, Run, arguments_of, epoch_time, key_values, results_of
from tests.random_cases import random_cases

MS = 1000
SCHEMA = "k string, v bigint, t timestamp, _weight bigint"
#: (key, value, milliseconds within its epoch, how many epochs later it is retracted; None: never)
rows = st.tuples(
    st.sampled_from("ab"), st.none() | st.integers(-9, 9), st.integers(0, 9), st.sampled_from([None, 0, 1])
)


def harness_of(**settings: Any) -> AggregateHarness:
    calls = {"n": "count(*)", "s": "sum(v)"}
    given = {"key_by": "k", "window": {"tumbling": "5ms"}, "aggregate": calls, **settings}
    return AggregateHarness(schema=SCHEMA, event_time="t", out_of_orderness="25ms", **given)


@given(
    epochs=st.lists(st.lists(rows, max_size=6), min_size=1, max_size=6),
    parallelism=st.sampled_from([1, 2]),
    has_backlog=st.booleans(),
)
def test_a_window_has_the_rows_that_were_not_retracted(
    epochs: list[list[tuple[str, int | None, int, int | None]]], parallelism: int, has_backlog: bool
) -> None:
    harness = harness_of(parallelism=parallelism, backlog=has_backlog)
    arriving: list[list[dict[str, Any]]] = [[] for _ in range(len(epochs) + 1)]
    left: dict[tuple[int, str], list[int | None]] = {}
    for number, epoch in enumerate(epochs):
        for k, v, ms, retracted_after in epoch:
            time_us = (10 * number + ms) * MS
            record = {"k": k, "v": v, "t": time_us}
            arriving[number].append({**record, "_weight": 1})
            if retracted_after is None:
                left.setdefault((time_us // (5 * MS), k), []).append(v)
            else:
                arriving[number + retracted_after].append({**record, "_weight": -1})
    for number, records in enumerate(arriving):
        harness.feed(records)
        if has_backlog and number == 0:
            harness.flip()
    harness.end()
    values = {window: [v for v in own if v is not None] for window, own in left.items()}
    expected = Counter(
        (5 * MS * start, 5 * MS * (start + 1), k, len(left[start, k]), sum(own) if own else None, "insert")
        for (start, k), own in values.items()
    )
    assert Counter(flat(harness.take())) == expected
    assert harness.state_entries == 0


ARGUMENT_TYPES = tuple(column.type for column in arguments_of([]))
MULTISET = MultisetAggregator(AGGREGATOR.outputs, AGGREGATOR.registers, AGGREGATOR.arguments, ARGUMENT_TYPES)
changed = st.tuples(
    st.builds(
        Event, st.integers(0, 2), st.integers(0, 9), st.none() | st.integers(-3, 3), st.sampled_from(["a", "b", None])
    ),
    st.sampled_from([None, 0, 1, 1]),
)


def windows_of(gap_or_size: int, events: Sequence[Event], *, is_session: bool) -> dict[tuple[Any, ...], list[Event]]:
    """{(start, end, key columns): the events} of windows, by plain Python."""
    found: dict[tuple[Any, ...], list[Event]] = {}
    for key in {event.key for event in events}:
        own = sorted((event for event in events if event.key == key), key=lambda event: event.time_us)
        groups: list[list[Event]] = []
        for event in own:
            before = groups[-1] if groups else [replace(event, time_us=-1_000)]
            is_near = event.time_us - before[-1].time_us <= gap_or_size
            if is_near if is_session else event.time_us // gap_or_size == before[0].time_us // gap_or_size:
                before.append(event)
            else:
                groups.append([event])
        for group in groups:
            start = group[0].time_us if is_session else group[0].time_us // gap_or_size * gap_or_size
            end = (group[-1].time_us if is_session else start) + gap_or_size
            found[(start, end, *key_values(KEYED, key))] = group
    return found


@given(
    epochs=st.lists(st.lists(changed, max_size=6), min_size=1, max_size=5),
    kind=st.sampled_from(["session", "tumbling"]),
    lateness_us=st.sampled_from([0, 25, 40]),
    early_every_ms=st.sampled_from([None, 1]),
    parallelism=st.sampled_from([1, 2]),
    is_backlog=st.booleans(),
)
@settings(max_examples=random_cases(25))
def test_windows_of_every_kind_follow_the_rows_that_are_retracted(
    epochs: list[list[tuple[Event, int | None]]],
    kind: str,
    lateness_us: int,
    early_every_ms: int | None,
    parallelism: int,
    *,
    is_backlog: bool,
) -> None:
    """With lateness, windows fire before their rows are retracted. The output follows, and a session may be divided."""
    operator: Any
    if kind == "session":
        operator = SessionAggregateOperator(MULTISET, KEYED, 4, lateness_us, early_every_ms, emits_retractions=True)
    else:
        windows = (Tumbling(5), lateness_us, early_every_ms)
        operator = TimeWindowAggregateOperator(MULTISET, KEYED, *windows, emits_retractions=True, is_changelog=True)
    run = Run(operator, parallelism=parallelism, with_changelog=True)
    arriving: list[list[Event]] = [[] for _ in range(len(epochs) + 1)]
    left: list[Event] = []
    for number, epoch in enumerate(epochs):
        for event, retracted_after in epoch:
            moved = replace(event, time_us=10 * number + event.time_us)
            arriving[number].append(moved)
            if retracted_after is None:
                left.append(moved)
            else:
                arriving[number + retracted_after].append(replace(moved, weight=-1))
    watermark_us = MIN_TIME_US
    for number, events in enumerate(arriving):
        firing_us = 10 * number + 10 - (0 if lateness_us else 25)
        in_backlog = is_backlog and number == 0
        time = epoch_time(watermark_us, firing_us, clock_ms=number, clock_before_ms=number - 1, is_backlog=in_backlog)
        run.epoch(events, time)
        watermark_us = firing_us
    run.epoch([], epoch_time(watermark_us, MAX_TIME_US))
    gap_or_size = 4 if kind == "session" else 5
    expected = windows_of(gap_or_size, left, is_session=kind == "session")
    assert run.output.rows == {window: results_of(events) for window, events in expected.items()}
    assert not run.late
    assert not run.entries


def test_a_session_is_divided_when_the_row_that_held_it_together_is_retracted() -> None:
    operator = SessionAggregateOperator(MULTISET, KEYED, 4, 50, None, emits_retractions=True)
    run = Run(operator, parallelism=1, with_changelog=True)
    first, middle, last = Event(0, 10), Event(0, 14), Event(0, 18)
    run.epoch([first, middle, last], epoch_time(MIN_TIME_US, 30))
    assert {key[:2] for key in run.output.rows} == {(10, 22)}
    run.epoch([replace(middle, weight=-1)], epoch_time(30, 31))
    assert {key[:2] for key in run.output.rows} == {(10, 14), (18, 22)}
    run.epoch([replace(last, weight=-1)], epoch_time(31, 32))
    assert {key[:2] for key in run.output.rows} == {(10, 14)}


def test_a_global_window_cannot_read_rows_that_are_retracted() -> None:
    with pytest.raises(InvalidJobError, match="a global window that is full cannot retract a row"):
        harness_of(window={"count": 2})
