"""Time to live: expired state is never returned, and is removed in the background."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode.operators.process import (
    Context,
    KeyedProcessFunction,
    ListState,
    MapState,
    Record,
    ReducingState,
    Ttl,
    ValueState,
)
from mixedmode.operators.process.due import SWEEP_EVERY_MS, groups_to_sweep
from mixedmode.time import EpochTime
from tests.operators.process.epochs import Epochs, operator_of


class Fading(KeyedProcessFunction):
    """Writes, reads, or shows."""

    written = ValueState(int, default=0, ttl=Ttl("10ms"))
    used = ValueState(int, default=0, ttl=Ttl("10ms", refresh="read-and-write"))
    items = ListState(int, ttl=Ttl("10ms"))
    peak = ReducingState(int, reduce=max, ttl=Ttl(timedelta(milliseconds=10)))
    kept = ValueState(int, default=0)

    def process_element(self, record: Record, context: Context) -> Any:
        if record["v"] == WRITE:
            self.written.value += 1
            self.used.value = 5
            self.items.append(1)
            self.peak.add(record["v"])
        elif record["v"] == READ:
            return {"shown": [self.used.value]}
        elif record["v"] == KEEP:
            self.kept.value = 1
        return {"shown": [self.written.value, len(self.items), self.peak.value]}


WRITE, READ, SHOW, KEEP = 0, 1, 2, 3
OUTPUT = {"shown": pa.list_(pa.int64())}


def shown(epochs: Epochs, clock_ms: int, action: int) -> list[Any]:
    (row,) = epochs.run([("k", 0, action)], clock_ms=clock_ms).rows
    return row["shown"]  # type: ignore[no-any-return]


def test_a_value_lives_until_its_ttl_has_passed_since_it_was_written() -> None:
    epochs = Epochs(operator_of(Fading, OUTPUT))
    assert shown(epochs, 100, WRITE) == [1, 1, 0]
    assert shown(epochs, 109, SHOW) == [1, 1, 0], "reading does not refresh it"
    assert shown(epochs, 110, SHOW) == [0, 0, None]
    assert not epochs.entries, "and where expired state was met, it is removed"


def test_each_write_counts_anew() -> None:
    epochs = Epochs(operator_of(Fading, OUTPUT))
    for clock_ms in (100, 109, 118):
        shown(epochs, clock_ms, WRITE)
    assert shown(epochs, 127, SHOW) == [3, 3, 0]
    assert shown(epochs, 128, SHOW) == [0, 0, None]


def test_a_read_counts_anew_where_the_ttl_says_so() -> None:
    epochs = Epochs(operator_of(Fading, OUTPUT))
    shown(epochs, 100, WRITE)
    assert shown(epochs, 108, READ) == [5]
    assert shown(epochs, 117, READ) == [5]
    assert shown(epochs, 127, READ) == [0]


def test_expired_state_of_a_quiet_key_is_removed_within_a_sweep() -> None:
    epochs = Epochs(operator_of(Fading, OUTPUT))
    epochs.run([(f"k{i}", 0, WRITE) for i in range(20)], clock_ms=0)
    epochs.run([("k7", 0, KEEP)], clock_ms=1)
    assert len(epochs.entries) == 20
    left = []
    for clock_ms in range(2, SWEEP_EVERY_MS + 3, SWEEP_EVERY_MS // 10):
        given = epochs.run(clock_ms=clock_ms)
        assert given.rows == [], "the function is not called for it"
        left.append(len(epochs.entries))
    assert left == sorted(left, reverse=True)
    assert left[0] == 20, "one key group at a time"
    assert len(epochs.entries) == 1, "what has no ttl stays"
    assert shown(epochs, clock_ms + 1, SHOW) == [0, 0, None]


def test_state_that_was_written_in_the_backlog_expires_by_the_clock_too() -> None:
    epochs = Epochs(operator_of(Fading, OUTPUT))
    epochs.run([("k", 0, WRITE)], clock_ms=100, is_backlog=True)
    assert shown(epochs, 109, SHOW) == [1, 1, 0]
    assert shown(epochs, 110, SHOW) == [0, 0, None]


def test_a_ttl_that_is_added_later_counts_from_when_its_key_is_met() -> None:
    class Before(KeyedProcessFunction):
        count = ValueState(int, default=0)

        def process_element(self, record: Record, context: Context) -> Record:
            if record["v"]:
                self.count.value += record["v"]
            return {"n": self.count.value}

    class After(Before):
        count = ValueState(int, default=0, ttl=Ttl("10ms"))

    epochs = Epochs(operator_of(Before, {"n": pa.int64()}))
    epochs.run([("k", 0, 1)], clock_ms=0)
    for operator, clock_ms, expected in [(After, 100, 1), (After, 109, 1), (After, 110, 0), (Before, 999, 0)]:
        epochs.operator = operator_of(operator, {"n": pa.int64()})
        assert epochs.run([("k", 0, 0)], clock_ms=clock_ms).rows == [{"n": expected}], (operator, clock_ms)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("7d", 604_800_000), ("1h30m", 5_400_000), ("15s", 15_000), ("1ms", 1), (timedelta(hours=1), 3_600_000)],
)
def test_a_ttl_is_written_as_a_duration(text: Any, duration_ms: int) -> None:
    assert Ttl(text).duration_ms == duration_ms


def test_a_ttl_of_a_state_that_is_no_ttl_is_refused() -> None:
    given: Any = "7d"
    for declare in (
        lambda: ValueState(int, ttl=given),
        lambda: ListState(int, ttl=given),
        lambda: MapState(str, int, ttl=given),
        lambda: ReducingState(int, reduce=max, ttl=given),
    ):
        with pytest.raises(InvalidJobError, match=r"a Ttl, as in ValueState\(int, ttl=Ttl\('7d'\)\). found='7d'"):
            declare()


@pytest.mark.parametrize("text", ["", "7", "0s", "1 d", "30m1h", "-1s", 5, None, timedelta(0), timedelta(days=-1)])
def test_what_is_no_ttl_is_refused(text: Any) -> None:
    with pytest.raises(InvalidJobError, match="this is no time to live"):
        Ttl(text)
    with pytest.raises(InvalidJobError, match="this is no way to refresh a Ttl"):
        Ttl("1s", refresh="always")  # type: ignore[arg-type]


@given(
    start=st.integers(0, 5),
    count=st.integers(0, 20),
    steps=st.lists(st.integers(0, SWEEP_EVERY_MS * 2), max_size=30),
    began_ms=st.integers(0, 2**41),
)
def test_each_key_group_is_swept_once_per_round_whatever_the_epochs(
    start: int, count: int, steps: list[int], began_ms: int
) -> None:
    clocks = [began_ms]
    for step in steps:
        clocks.append(clocks[-1] + step)
    swept = dict.fromkeys(range(start, start + count), 0)
    for before, now in pairwise(clocks):
        groups = groups_to_sweep(epoch_time(before, now), start, start + count)
        assert len(set(groups)) == len(groups), "a group once in an epoch"
        for group in groups:
            swept[group] += 1
    short_steps = all(step <= SWEEP_EVERY_MS for step in steps)
    rounds = (clocks[-1] - clocks[0]) // SWEEP_EVERY_MS
    for group, times in swept.items():
        assert times <= rounds + 1, group
        assert times >= rounds or not short_steps, group


@pytest.mark.parametrize("change", [{"is_backlog": True}, {"clock_before_ms": None}, {"is_final": True}])
def test_nothing_is_swept_in_backlog_nor_at_the_end(change: dict[str, Any]) -> None:
    assert groups_to_sweep(epoch_time(0, SWEEP_EVERY_MS), 0, 4) == [0, 1, 2, 3]
    assert groups_to_sweep(epoch_time(0, SWEEP_EVERY_MS, **change), 0, 4) == []


def epoch_time(before_ms: int, now_ms: int, **change: Any) -> EpochTime:
    values = {"is_backlog": False, "clock_before_ms": before_ms, "firing_us": 0, **change}
    return EpochTime(late_us=0, clock_ms=now_ms, was_backlog=False, **values)
