"""The numbers of the specification (what a key's end means, and what an operator sees in backlog), word for word."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from mixedmode.operators.process import Context, KeyedProcessFunction, Record, ValueState
from tests.operators.process.epochs import Epochs, operator_of

FIRED = {"k": pa.string(), "time": pa.int64()}


class Alarm(KeyedProcessFunction):
    """Registers a timer for the time in `v`, and tells when it fires."""

    def process_element(self, record: Record, context: Context) -> None:
        context.timers.register_event_time_timer(record["v"])

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        yield {"k": context.current_key, "time": timestamp}


def fired(given: Any) -> list[tuple[str, int]]:
    return [(row["k"], row["time"]) for row in given.rows]


def test_timers_fire_live_then_key_by_key_in_the_backlog_then_live_again() -> None:
    epochs = Epochs(operator_of(Alarm, FIRED), max_parallelism=1)  # one key group, so that k1 comes before k2
    registered = [("k1", 0, 1), ("k1", 0, 2), ("k1", 0, 3), ("k2", 0, 1), ("k2", 0, 3)]
    assert fired(epochs.run(registered, watermark=2)) == [("k1", 1), ("k1", 2), ("k2", 1)]

    backlog = epochs.run([("k1", 0, 4), ("k1", 0, 5), ("k2", 0, 6)], watermark=5, is_backlog=True)
    assert fired(backlog) == [("k1", 3), ("k1", 4), ("k1", 5), ("k2", 3)], "k1 to its end, then k2"

    assert fired(epochs.run(watermark=5)) == [], "after the flip the watermark is 5"
    assert fired(epochs.run(watermark=6)) == [("k2", 6)], "k2: 6 fires when the watermark reaches 6"
    assert not epochs.entries, "what has fired is stored no more"


class RunningCount(KeyedProcessFunction):
    """Gives the running count of a key with every record."""

    seen = ValueState(int, default=0)

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        self.seen.value += 1
        yield {"k": context.current_key, "n": self.seen.value}


def test_in_ten_thousand_backlog_records_of_two_keys_the_key_changes_once() -> None:
    backlog = [(f"k{i % 2}", i, 0) for i in range(10_000)]
    live = [(f"k{i % 2}", i, 0) for i in range(10_000, 20_000)]
    epochs = Epochs(operator_of(RunningCount, {"k": pa.string(), "n": pa.int64()}))

    first = epochs.run(backlog, watermark=9_999, is_backlog=True).rows
    assert len(first) == 10_000, "a row a record"
    assert len(list(groupby(row["k"] for row in first))) == 2, "exactly one key switch"
    for key in ("k0", "k1"):
        assert [row["n"] for row in first if row["k"] == key] == list(range(1, 5_001)), f"running values of {key}"

    after = [row for start in range(0, 10_000, 100) for row in epochs.run(live[start : start + 100]).rows]
    for key in ("k0", "k1"):
        counts = [row["n"] for row in after if row["k"] == key]
        assert counts == list(range(5_001, 10_001)), f"{key} goes on live where the backlog left it"
