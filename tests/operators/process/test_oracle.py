"""Random functions against a few lines of plain Python: states, timers of both domains, ttl, failures that are undone.

A record says what to do with the state of its key. Both sides do it, in random epochs, some of them backlog, on one or
two subtasks, and show everything they know after each record and each timer.
"""

import copy
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.operators.interface import OperatorAttributes
from mixedmode.operators.process import (
    Context,
    KeyedProcessFunction,
    ListState,
    MapState,
    Record,
    ReducingState,
    Ttl,
    ValueState,
    due,
    turns,
)
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from tests.operators.epochs import RunState
from tests.operators.process.epochs import Epochs, operator_of
from tests.random_cases import random_cases

OUTPUT = {"k": pa.string(), "cause": pa.string(), "state": pa.string()}
TTL_MS = 10


class BoomError(Exception):
    """Raised by a record or a timer that is told to fail."""


class Machine(KeyedProcessFunction):
    """Does what the record says."""

    attributes = OperatorAttributes(uses_clock=True)
    count = ValueState(int, default=0)
    short = ValueState(str, default="-", ttl=Ttl(f"{TTL_MS}ms"))
    used = ValueState(int, default=0, ttl=Ttl(f"{TTL_MS}ms", refresh="read-and-write"))
    items = ListState(int)
    nested = ValueState(dict[str, list[int]], default={})
    peak = ReducingState(int, reduce=max)
    table = MapState(str, list[int])
    fading = MapState(str, int, ttl=Ttl(f"{TTL_MS}ms"))

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        for step in record["v"].split(","):
            word, number = step[:1], int(step[1:])
            self._do(word, number, context)
            yield self._shown(context, f"{context.timestamp} {step}")

    def on_timer(self, timestamp: int, context: Context) -> Iterator[Record]:
        self.count.value += 100
        yield self._shown(context, f"{context.time_domain} {timestamp} at {context.current_watermark}")
        if timestamp % 5 == 0:
            raise BoomError(timestamp)
        if timestamp % 3 == 0:
            context.timers.register_event_time_timer(timestamp + 4)
            context.timers.delete_event_time_timer(timestamp + 2)
            context.timers.register_processing_time_timer(context.processing_time + 3_000)

    def _do(self, word: str, number: int, context: Context) -> None:
        timers = context.timers
        actions: dict[str, Callable[[], Any]] = {
            "c": lambda: setattr(self.count, "value", self.count.value + number),
            "s": lambda: setattr(self.short, "value", str(number)),
            "u": lambda: setattr(self.used, "value", number),
            "r": lambda: self.used.value,
            "i": lambda: self.items.append(number),
            "x": lambda: self.items.clear() if number % 2 else self.count.clear(),
            "n": lambda: self.nested.value.setdefault("a", []).append(number),
            "p": lambda: self.peak.add(number),
            "t": lambda: self.table.setdefault(f"e{number % 3}", []).append(number),
            "d": lambda: self.table.pop(f"e{number % 3}", None),
            "f": lambda: self.fading.__setitem__(f"e{number % 3}", number),
            "g": self.fading.clear,
            "E": lambda: timers.register_event_time_timer(number),
            "D": lambda: timers.delete_event_time_timer(number),
            "P": lambda: timers.register_processing_time_timer(context.processing_time + 1_000 * number),
            "Q": lambda: timers.delete_processing_time_timer(context.processing_time + 1_000 * number),
        }
        if word == "B":
            raise BoomError(number)
        actions[word]()

    def _shown(self, context: Context, cause: str) -> Record:
        state = {
            "count": self.count.value,
            "short": self.short.value,
            "items": list(self.items),
            "nested": self.nested.value,
            "peak": self.peak.value,
            "table": dict(self.table.items()),
            "fading": dict(self.fading.items()),
        }
        return {"k": context.current_key, "cause": cause, "state": json.dumps(state)}


class OracleKey:
    """One key, as plain values. A pair is (value, when it expires)."""

    def __init__(self) -> None:
        self.count = 0
        self.peak: int | None = None
        self.items: list[int] = []
        self.nested: dict[str, list[int]] = {}
        self.table: dict[str, list[int]] = {}
        self.short, self.used = ("-", 0), (0, 0)
        self.fading: dict[str, tuple[int, int]] = {}
        self.event: set[int] = set()
        self.processing: set[int] = set()

    def do(self, word: str, number: int, now_ms: int) -> None:  # noqa: C901, PLR0912  # a case per word
        entry, expiry = f"e{number % 3}", now_ms + TTL_MS
        match word:
            case "c":
                self.count += number
            case "s":
                self.short = (str(number), expiry)
            case "u":
                self.used = (number, expiry)
            case "r" if self.used[1] > now_ms:
                self.used = (self.used[0], expiry)
            case "i":
                self.items.append(number)
            case "x" if number % 2:
                self.items = []
            case "x":
                self.count = 0
            case "n":
                self.nested.setdefault("a", []).append(number)
            case "p":
                self.peak = number if self.peak is None else max(self.peak, number)
            case "t":
                self.table.setdefault(entry, []).append(number)
            case "d":
                self.table.pop(entry, None)
            case "f":
                self.fading[entry] = (number, expiry)
            case "g":
                self.fading = {}
            case "E":
                self.event.add(number)
            case "D":
                self.event.discard(number)
            case "P":
                self.processing.add(1_000 * (now_ms + number))
            case "Q":
                self.processing.discard(1_000 * (now_ms + number))
            case "B":
                raise BoomError(number)

    def shown(self, now_ms: int) -> str:
        return json.dumps(
            {
                "count": self.count,
                "short": self.short[0] if self.short[1] > now_ms else "-",
                "items": self.items,
                "nested": self.nested,
                "peak": self.peak,
                "table": dict(sorted(self.table.items())),
                "fading": {k: v for k, (v, expiry) in sorted(self.fading.items()) if expiry > now_ms},
            }
        )


class Oracle:
    """All keys; `run` takes an epoch as Epochs.run does, and gives {key: [(cause, state)]} and what was left out."""

    def __init__(self) -> None:
        self.keys: dict[str, OracleKey] = defaultdict(OracleKey)
        self.fired_us, self.clock_ms = MIN_TIME_US, 0

    def run(
        self, records: list[tuple[str, int, str]], watermark: int | None, clock_ms: int, *, is_backlog: bool
    ) -> tuple[dict[str, list[tuple[str, str]]], int]:
        self.clock_ms = clock_ms
        firing_us = self.fired_us if watermark is None else max(watermark, self.fired_us)
        is_final = firing_us == MAX_TIME_US
        rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
        left_out = 0
        for key in sorted({record[0] for record in records} | set(self.keys)):
            for _, time_us, steps in sorted((r for r in records if r[0] == key), key=lambda r: r[1]):
                left_out += self._attempt(key, rows[key], lambda s, out, t=time_us, v=steps: self._record(s, out, t, v))
            while True:
                state = self.keys[key]
                clock_us = MAX_TIME_US if is_final else MIN_TIME_US if is_backlog else 1_000 * clock_ms
                event = min((t for t in state.event if t <= firing_us), default=None)
                processing = min((t for t in state.processing if t <= clock_us), default=None)
                if event is not None:
                    state.event.discard(event)
                    cause = (f"event {event} at {firing_us}", event)
                elif processing is not None:
                    state.processing.discard(processing)
                    cause = (f"processing {processing} at {firing_us}", processing)
                else:
                    break
                left_out += self._attempt(
                    key, rows[key], lambda s, out, c=cause: self._timer(s, out, *c, is_final=is_final)
                )
        self.fired_us = firing_us
        return rows, left_out

    def _attempt(self, key: str, rows: list[tuple[str, str]], act: Any) -> int:
        state, out = copy.deepcopy(self.keys[key]), list[tuple[str, str]]()
        try:
            act(state, out)
        except BoomError:
            return 1
        self.keys[key] = state
        rows += out
        return 0

    def _record(self, state: OracleKey, out: list[tuple[str, str]], time_us: int, steps: str) -> None:
        for step in steps.split(","):
            state.do(step[:1], int(step[1:]), self.clock_ms)
            out.append((f"{time_us} {step}", state.shown(self.clock_ms)))

    def _timer(self, state: OracleKey, out: list[tuple[str, str]], cause: str, time_us: int, *, is_final: bool) -> None:
        state.count += 100
        out.append((cause, state.shown(self.clock_ms)))
        if time_us % 5 == 0:
            raise BoomError(time_us)
        if time_us % 3 == 0:
            state.event.add(time_us + 4)
            state.event.discard(time_us + 2)
            if not is_final:
                state.processing.add(1_000 * (self.clock_ms + 3))


STEP = st.builds(lambda word, number: f"{word}{number}", st.sampled_from("csurixnptdfgEEEDDPQB"), st.integers(0, 8))
RECORD = st.tuples(
    st.sampled_from(["a", "b", "", "a\x00"]),
    st.integers(0, 9),
    st.lists(STEP, min_size=1, max_size=4).map(",".join),
)
EPOCH = st.fixed_dictionaries(
    {
        "records": st.lists(RECORD, max_size=6),
        "watermark": st.none() | st.integers(0, 12),
        "elapsed_ms": st.integers(0, 12),
        "is_backlog": st.booleans(),
        "parallelism": st.integers(1, 2),
    }
)


@pytest.mark.parametrize("on_error", ["skip", "dead-letter"])
@settings(max_examples=random_cases(20))
@given(plan=st.lists(EPOCH, max_size=6), ends=st.booleans(), prefetched=st.sampled_from([0, 1, 256]))
def test_a_function_gives_what_plain_python_gives(
    on_error: Any, plan: list[dict[str, Any]], ends: bool, prefetched: int
) -> None:
    with patch.object(turns, "PREFETCHED_ENTRIES_MAX", prefetched), patch.object(due, "SWEEP_EVERY_MS", 8):
        check_against_oracle(on_error, plan, ends)


def check_against_oracle(on_error: Any, plan: list[dict[str, Any]], ends: bool) -> None:
    epochs, oracle = Epochs(operator_of(Machine, OUTPUT, value_type=pa.string(), on_error=on_error)), Oracle()
    clock_ms = 1_000
    last = [{"records": [], "watermark": MAX_TIME_US, "elapsed_ms": 1, "is_backlog": False, "parallelism": 1}]
    for epoch in plan + (last if ends else []):
        clock_ms += epoch["elapsed_ms"]
        # equal times of a key come in no certain order, so a test that knows the order has them differ
        records = list({(key, time): (key, time, steps) for key, time, steps in epoch["records"]}.values())
        given = epochs.run(
            records,
            watermark=epoch["watermark"],
            clock_ms=clock_ms,
            is_backlog=epoch["is_backlog"],
            parallelism=epoch["parallelism"],
        )
        expected, left_out = oracle.run(records, epoch["watermark"], clock_ms, is_backlog=epoch["is_backlog"])
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in given.rows:
            found[row["k"]].append((row["cause"], row["state"]))
        assert dict(found) == {key: rows for key, rows in expected.items() if rows}
        tag = "skipped" if on_error == "skip" else "dead-letter"
        assert len(given.sides.get(tag, [])) == left_out, "each failure is told once"


@pytest.mark.parametrize("seed", range(4))
def test_over_rocksdb_it_is_the_same_as_in_memory(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    operator = operator_of(Machine, OUTPUT, value_type=pa.string(), on_error="skip")
    memory, runs = Epochs(operator), Epochs(operator, runs=RunState(tmp_path))
    for epoch in range(8):
        steps = [[f"{rng.choice('csurixnptdfgEDPQB')}{rng.randrange(8)}" for _ in range(3)] for _ in range(40)]
        records = [(f"k{rng.randrange(9)}", time, ",".join(three)) for time, three in enumerate(steps)]
        options: dict[str, Any] = {"watermark": 5 * epoch, "clock_ms": 1_000 + 4 * epoch, "is_backlog": epoch == 0}
        assert runs.run(records, **options) == memory.run(records, **options)
    assert runs.end() == memory.end()


@settings(max_examples=random_cases(15))
@given(plan=st.lists(EPOCH, max_size=5))
def test_without_failures_unguarded_calls_give_the_same(plan: list[dict[str, Any]]) -> None:
    def without_boom(steps: str) -> str:
        return ",".join(step for step in steps.split(",") if step[0] not in "BEP") or "c1"  # nor timers, which may fail

    guarded = Epochs(operator_of(Machine, OUTPUT, value_type=pa.string(), on_error="skip"))
    plain = Epochs(operator_of(Machine, OUTPUT, value_type=pa.string()))
    clock_ms = 1_000
    for epoch in plan:
        clock_ms += epoch["elapsed_ms"]
        records = [(key, time, without_boom(steps)) for key, time, steps in epoch["records"]]
        options = {"watermark": epoch["watermark"], "clock_ms": clock_ms, "is_backlog": epoch["is_backlog"]}
        assert guarded.run(records, **options) == plain.run(records, **options)
        assert guarded.entries == plain.entries, "and leave the same state"


@settings(max_examples=random_cases(20))
@given(
    records=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 40)), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    is_backlog=st.booleans(),
)
def test_one_backlog_epoch_leaves_what_many_live_epochs_leave(
    records: list[tuple[str, int, int]], cuts: list[int], is_backlog: bool
) -> None:
    records = sorted(records, key=lambda record: record[1])
    greatest = max((record[1] for record in records), default=0)

    def run(borders: list[int]) -> tuple[list[tuple[str, int]], dict[bytes, bytes]]:
        epochs = Epochs(operator_of(CountAndRemind, {"k": pa.string(), "time": pa.int64()}))
        rows = []
        for start, end in zip([0, *borders], [*borders, len(records)], strict=True):
            seen = [record[1] for record in records[:end]]
            given = epochs.run(
                records[start:end],
                watermark=max(seen, default=0) if end < len(records) else greatest,
                is_backlog=is_backlog and not borders,
            )
            rows += [(row["k"], row["time"]) for row in given.rows]
        return sorted(rows), dict(epochs.entries)

    assert run([]) == run(sorted(min(cut, len(records)) for cut in cuts))


class CountAndRemind(KeyedProcessFunction):
    """Counts, and registers a timer per record."""

    count = ValueState(int, default=0)

    def process_element(self, record: Record, context: Context) -> None:
        self.count.value += 1
        assert context.timestamp is not None
        context.timers.register_event_time_timer(context.timestamp + 1 + record["v"])

    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"k": context.current_key, "time": timestamp}
