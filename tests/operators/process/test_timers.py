"""Timers: one per key, time and domain; when they fire, and what an epoch's watermark and clock have to do with it."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process import Context, KeyedProcessFunction, Record, Timers, ValueState, calls
from mixedmode.operators.process.timers import EVENT_TIMERS, PROCESSING_TIMERS
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.operators.process.epochs import Epochs, Given, operator_of

FIRED = {"k": pa.string(), "domain": pa.string(), "time": pa.int64(), "watermark": pa.int64()}


def _nothing(timers: Timers) -> None:
    """Do nothing, as most timers do when they fire."""


class Scripted(KeyedProcessFunction):
    """Does with its timers what a test says for a record, and for a time that fires."""

    attributes = OperatorAttributes(uses_clock=True)

    def __init__(
        self, steps: list[Callable[[Timers], Any]], on_fired: dict[int, Callable[[Timers], Any]] | None = None
    ) -> None:
        self.steps = steps
        self.on_fired = on_fired or {}

    def process_element(self, record: Record, context: Context) -> None:
        self.steps[record["v"]](context.timers)

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        assert context.timestamp == timestamp
        self.on_fired.get(timestamp, _nothing)(context.timers)
        yield {
            "k": context.current_key,
            "domain": context.time_domain,
            "time": timestamp,
            "watermark": context.current_watermark,
        }


def epochs_of(*steps: Callable[[Timers], Any], on_fired: Any = None, on_error: Any = "fail") -> Epochs:
    return Epochs(operator_of(Scripted, FIRED, args={"steps": steps, "on_fired": on_fired}, on_error=on_error))


def event(time: int) -> Callable[[Timers], None]:
    return lambda timers: timers.register_event_time_timer(time)


def processing(time: int) -> Callable[[Timers], None]:
    return lambda timers: timers.register_processing_time_timer(time)


def delete(time: int) -> Callable[[Timers], None]:
    return lambda timers: timers.delete_event_time_timer(time)


def times(given: Given) -> list[int]:
    return [row["time"] for row in given.rows]


def test_a_timer_fires_when_the_watermark_is_at_its_time() -> None:
    epochs = epochs_of(event(10))
    assert times(epochs.run([("k", 0, 0)], watermark=9)) == []
    assert times(epochs.run(watermark=10)) == [10]
    assert times(epochs.run(watermark=11)) == [], "once"


def test_a_timer_registered_many_times_fires_once() -> None:
    epochs = epochs_of(event(10), event(3))
    epochs.run([("k", 0, 0), ("k", 1, 0)], watermark=5)
    assert times(epochs.run([("k", 0, 0), ("k", 1, 1), ("k", 2, 1)], watermark=10)) == [3, 10]


def test_timers_of_a_key_fire_in_the_order_of_their_times_and_keys_have_their_own() -> None:
    epochs = epochs_of(event(7), event(3), event(5))
    records = [(key, i, i) for key in ("a", "b") for i in range(3)]
    given = epochs.run(records, watermark=10)
    for key in ("a", "b"):
        assert [row["time"] for row in given.rows if row["k"] == key] == [3, 5, 7]


def test_a_timer_in_the_past_fires_at_the_end_of_the_keys_turn() -> None:
    epochs = epochs_of(event(3), event(MIN_TIME_US))
    epochs.run(watermark=100)
    assert times(epochs.run([("k", 0, 0), ("k", 0, 1)], watermark=100)) == [MIN_TIME_US, 3]
    assert not epochs.entries, "and is never stored"


def test_without_a_watermark_nothing_fires_and_with_the_last_one_everything_does() -> None:
    epochs = epochs_of(event(-5), event(MAX_TIME_US), event(2**40))
    assert times(epochs.run([("k", 0, 0), ("k", 1, 1), ("k", 2, 2)])) == []
    assert times(epochs.end()) == [-5, 2**40, MAX_TIME_US]
    assert not epochs.entries


def test_a_deleted_timer_does_not_fire_whenever_it_was_registered() -> None:
    def both(timers: Timers) -> None:
        event(10)(timers)
        delete(10)(timers)

    epochs = epochs_of(event(10), delete(10), both, delete(99))
    epochs.run([("k", 0, 0)], watermark=1)
    epochs.run([("k", 0, 1)], watermark=2)
    assert not epochs.entries, "deleted in an epoch in which it was not due"
    epochs.run([("k", 0, 0)], watermark=3)
    assert times(epochs.run([("k", 0, 1)], watermark=20)) == [], "deleted in the epoch in which it is due"
    assert not epochs.entries
    assert times(epochs.run([("k", 0, 2), ("k", 1, 3)], watermark=20)) == [], "deleted in the epoch that registers it"
    assert epochs.pairs_written == 0, "what was never stored leaves no tombstone"


def test_deleting_and_registering_again_is_registering() -> None:
    epochs = epochs_of(event(10), lambda timers: [delete(10)(timers), event(10)(timers), event(5)(timers)])
    epochs.run([("k", 0, 0)], watermark=1)
    assert times(epochs.run([("k", 0, 1)], watermark=10)) == [5, 10]


def test_a_timer_registered_when_one_fires_fires_in_the_same_epoch_if_it_is_due() -> None:
    chain = {5: event(7), 7: event(6), 6: event(100)}
    epochs = epochs_of(event(5), on_fired=chain)
    assert times(epochs.run([("k", 0, 0)], watermark=20)) == [5, 7, 6]
    assert times(epochs.run(watermark=100)) == [100]


def test_a_timer_may_delete_the_next_one() -> None:
    epochs = epochs_of(event(5), event(6), on_fired={5: delete(6)})
    assert times(epochs.run([("k", 0, 0), ("k", 1, 1)], watermark=20)) == [5]


def test_the_watermark_of_a_timer_is_the_one_that_let_it_fire() -> None:
    epochs = epochs_of(event(5))
    (row,) = epochs.run([("k", 0, 0)], watermark=20).rows
    assert row == {"k": "k", "domain": "event", "time": 5, "watermark": 20}


class WithoutClock(KeyedProcessFunction):
    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_processing_time_timer(0)


def test_a_processing_time_timer_of_a_function_that_declares_no_clock_is_refused() -> None:
    """Without a word, it would wait for the next record."""
    with pytest.raises(InvalidJobError) as caught:
        Epochs(operator_of(WithoutClock, {})).run([("k", 0, 0)])
    assert "Add `attributes = OperatorAttributes(uses_clock=True)` to the class (mixedmode.process)" in str(
        caught.value
    )


class Watching(KeyedProcessFunction):
    def process_element(self, record: Record, context: Context) -> Record:
        return {
            "watermark": context.current_watermark,
            "timestamp": context.timestamp,
            "now": context.processing_time,
            "domain": context.time_domain,
            "is_backlog": context.is_backlog,
        }


def test_a_record_sees_the_watermark_from_before_its_epoch() -> None:
    output = {
        "watermark": pa.int64(),
        "timestamp": pa.int64(),
        "now": pa.int64(),
        "domain": pa.string(),
        "is_backlog": pa.bool_(),
    }
    epochs = Epochs(operator_of(Watching, output))
    (first,) = epochs.run([("k", 4, 0)], watermark=3, clock_ms=9, is_backlog=True).rows
    (second,) = epochs.run([("k", 6, 0)], watermark=5).rows
    assert first == {"watermark": MIN_TIME_US, "timestamp": 4, "now": 9_000, "domain": None, "is_backlog": True}
    assert second == {"watermark": 3, "timestamp": 6, "now": 9_000, "domain": None, "is_backlog": False}


def test_a_processing_time_timer_fires_at_the_first_live_epoch_at_or_after_its_time() -> None:
    epochs = epochs_of(processing(5_000), processing(1_000))
    assert times(epochs.run([("k", 0, 0)], clock_ms=4)) == []
    (row,) = epochs.run(clock_ms=5).rows
    assert row == {"k": "k", "domain": "processing", "time": 5_000, "watermark": MIN_TIME_US}
    assert times(epochs.run([("k", 0, 1)], clock_ms=6)) == [1_000], "one in the past fires at the end of the turn"
    assert not epochs.entries


def test_in_the_backlog_processing_time_timers_wait_for_the_flip() -> None:
    epochs = epochs_of(processing(5_000))
    assert times(epochs.run([("k", 0, 0)], clock_ms=10, is_backlog=True)) == []
    assert times(epochs.run([("k", 0, 0)], clock_ms=20, is_backlog=True)) == []
    assert len(epochs.stored(PROCESSING_TIMERS)) == 1
    assert times(epochs.run(clock_ms=21)) == [5_000], "the first live epoch fires all that is due, however old"


def test_a_clock_that_goes_back_fires_nothing_twice_and_loses_nothing() -> None:
    epochs = epochs_of(processing(50_000), processing(70_000))
    epochs.run([("k", 0, 0)], clock_ms=10)
    assert times(epochs.run(clock_ms=60)) == [50_000]
    assert times(epochs.run([("k", 0, 0), ("k", 1, 1)], clock_ms=40)) == [], "a function sees 40, so 50 is to come"
    assert times(epochs.run(clock_ms=60)) == [50_000]
    assert times(epochs.run(clock_ms=71)) == [70_000]


class Periodic(KeyedProcessFunction):
    """Has a timer some time from now, and registers it anew whenever it fires."""

    attributes = OperatorAttributes(uses_clock=True)

    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_processing_time_timer(context.processing_time + record["v"])

    def on_timer(self, timestamp: int, context: Context) -> Record:
        context.timers.register_processing_time_timer(context.processing_time + 2_000)
        return {"time": timestamp}


@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.integers(1, 20), st.booleans()), min_size=1, max_size=12))
def test_a_timer_fires_once_when_a_clock_that_moves_in_any_direction_has_reached_it(
    steps: list[tuple[int, int | None, bool]],
) -> None:
    """A step is an epoch: its clock, how far ahead a record registers a timer, and whether it is backlog."""
    epochs, pending = Epochs(operator_of(Periodic, {"time": pa.int64()})), set[int]()
    for clock_ms, ahead_ms, is_backlog in steps:
        records = [] if ahead_ms is None else [("k", 0, 1_000 * ahead_ms)]
        pending |= {1_000 * clock_ms + time for _, _, time in records}
        due = [] if is_backlog else sorted(time for time in pending if time <= 1_000 * clock_ms)
        assert times(epochs.run(records, clock_ms=clock_ms, is_backlog=is_backlog)) == due
        pending = pending - {*due} | ({1_000 * clock_ms + 2_000} if due else set())


def test_when_the_input_ends_all_processing_time_timers_fire_but_those_registered_then() -> None:
    epochs = epochs_of(processing(10**15), on_fired={10**15: processing(2 * 10**15)})
    assert times(epochs.end([("k", 0, 0)], clock_ms=1)) == [10**15]
    assert not epochs.entries
    batch = epochs_of(processing(10**15), event(10**15))
    given = batch.end([("k", 0, 0), ("k", 1, 1)], clock_ms=1, is_backlog=True)
    assert [row["domain"] for row in given.rows] == ["event", "processing"]


def test_the_domains_do_not_mix() -> None:
    epochs = epochs_of(lambda timers: [event(5)(timers), processing(5)(timers)], delete(5))
    epochs.run([("k", 0, 0)], clock_ms=0, watermark=0)
    assert [len(epochs.stored(state)) for state in (EVENT_TIMERS, PROCESSING_TIMERS)] == [1, 1]
    epochs.run([("k", 0, 1)], watermark=1)
    assert [len(epochs.stored(state)) for state in (EVENT_TIMERS, PROCESSING_TIMERS)] == [0, 1]


def test_a_time_may_be_a_datetime_or_an_integer_of_numpy() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    noon_us = 1_704_110_400_000_000
    epochs = epochs_of(
        lambda timers: timers.register_event_time_timer(noon),
        lambda timers: timers.register_event_time_timer(noon.replace(tzinfo=None) + timedelta(microseconds=1)),
        lambda timers: timers.register_event_time_timer(np.int64(noon_us + 2)),  # type: ignore[arg-type]
        lambda timers: timers.delete_event_time_timer(noon + timedelta(microseconds=2)),
    )
    assert times(epochs.run([("k", i, i) for i in range(3)], watermark=noon_us + 5)) == [
        noon_us,
        noon_us + 1,
        noon_us + 2,
    ]
    assert times(epochs.run([("k", 0, 2), ("k", 1, 3)], watermark=noon_us + 5)) == []


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ("noon", "TypeError: a time is microseconds since 1970 as an int, or a datetime. time='noon'"),
        (1.5, "TypeError: a time is microseconds since 1970 as an int, or a datetime. time=1.5"),
        (2**63, f"ValueError: a time must fit 64 bits, in microseconds since 1970. time={2**63}"),
    ],
)
def test_what_is_no_time_is_refused(time: Any, reason: str) -> None:
    with pytest.raises(InvalidJobError, match=re.escape(reason)):
        epochs_of(event(time)).run([("k", 0, 0)])


class Forgetful(KeyedProcessFunction):
    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_event_time_timer(0)


def test_a_function_with_a_timer_and_no_on_timer_is_told_so() -> None:
    with pytest.raises(InvalidJobError, match="a timer was registered, but Forgetful has no method on_timer"):
        Epochs(operator_of(Forgetful, {})).run([("k", 0, 0)], watermark=1)


class Hourly(KeyedProcessFunction):
    """Registers the next timer whenever one fires, for as long as there is time."""

    fired = ValueState(int, default=0)

    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_event_time_timer(record["v"])

    def on_timer(self, timestamp: int, context: Context) -> Record:
        self.fired.value += 1
        context.timers.register_event_time_timer(timestamp + 1)
        return {"n": self.fired.value}


def test_timers_that_never_end_are_stopped_when_the_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "LAST_TIMERS_MAX", 50)
    epochs = Epochs(operator_of(Hourly, {"n": pa.int64()}))
    assert len(epochs.run([("k", 0, 1)], watermark=200).rows) == 200, "while the input goes on, there is no limit"
    with pytest.raises(InvalidJobError, match=r"every timer fires now, .* goes on registering timers: 50 for"):
        epochs.end()
    batch = Epochs(operator_of(Hourly, {"n": pa.int64()}, on_error="skip"))
    rows = batch.end([("k", 0, 1), ("k", 200, 1)], is_backlog=True).rows
    assert len(rows) == 249, "up to the last record they are as many as it takes"


def test_timers_of_many_key_groups_are_written_in_order_and_found_again() -> None:
    epochs = epochs_of(*(event(time) for time in (50, 10, 30)))
    keys = [f"key-{i}" for i in range(40)]
    epochs.run([(key, i, i) for key in keys for i in range(3)], watermark=0, parallelism=2)
    assert len(epochs.entries) == 120
    given = epochs.run(watermark=30, parallelism=4)
    assert sorted((row["k"], row["time"]) for row in given.rows) == sorted((k, t) for k in keys for t in (10, 30))
    assert len(epochs.entries) == 40


def test_a_failed_call_leaves_timers_as_they_were() -> None:
    def fail(timers: Timers) -> None:
        timers.register_event_time_timer(4)
        timers.register_event_time_timer(40)
        timers.delete_event_time_timer(5)
        timers.delete_event_time_timer(50)
        timers.register_processing_time_timer(0)
        raise ValueError

    epochs = epochs_of(event(5), event(50), fail, on_error="skip")
    given = epochs.run([("k", 0, 0), ("k", 1, 1), ("k", 2, 2)], watermark=20)
    assert times(given) == [5]
    assert len(epochs.entries) == 1
    assert times(epochs.run(watermark=60)) == [50]


def test_the_layout_of_a_timer_is_pinned() -> None:
    epochs = epochs_of(event(1), processing(-2))
    epochs.run([("k", 0, 0), ("k", 1, 1)], watermark=0, clock_ms=-5)
    key = b"\x01k\x00\x00"
    assert dict(epochs.entries) == {
        b"\x00\x02\x01" + b"\x80\x00\x00\x00\x00\x00\x00\x01" + key: b"\x01",
        b"\x00\x02\x02" + b"\x7f\xff\xff\xff\xff\xff\xff\xfe" + key: b"\x01",
    }
