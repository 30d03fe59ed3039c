"""Windows, sessions, timers and process functions: mixed == streaming == batch == plain Python, without Spark.

Whatever the flip, the epochs, the parallelism and the restarts are, the answer is that of the records alone. Each test
has an oracle that knows nothing but the records.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from mixedmode.job.keyed import WindowArguments
from mixedmode.process import (
    AggregatingState,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from mixedmode.testing import AggregateHarness, FunctionHarness
from tests.differential.stories import local_cases
from tests.differential.timelines import MODES, MS, SCHEMA, Case, Event, Outcome, cases, flat, play
from tests.harness import SPARK_CASES

AGGREGATES = {
    "n": "count(*)",
    "total": "sum(v)",
    "values": "collect_list(v, 100)",
    "big": "count(v) filter (where is_big)",
}
WINDOW_SCHEMA = f"{SCHEMA}, is_big boolean"
Key = tuple[Any, ...]
Table = dict[Key, tuple[Any, ...]]


# --- windows ---------------------------------------------------------------------------------------------------------


def aggregated(events: Sequence[Event]) -> tuple[Any, ...]:
    """Return the results of AGGREGATES over these records."""
    values = [v for _, v in sorted((event.time_us, event.v) for event in events if event.v is not None)]
    return len(events), sum(values) if values else None, tuple(values), len([v for v in values if v > 50])


def windows_of(window: Mapping[str, Any], time_us: int) -> Iterator[tuple[int, int]]:
    """(start, end) of every window that a record is in, found by trying them all."""
    lengths = {name: int(str(text).removesuffix("ms")) * MS for name, text in window.items()}
    offset = lengths.get("offset", 0)
    if "sliding" in window:
        size, every = lengths["sliding"], lengths["slide"]
        first = (time_us - offset) // every * every + offset
        yield from ((start, start + size) for start in range(first, time_us - size, -every))
        return
    size = lengths.get("tumbling") or lengths["cumulating"]
    start = (time_us - offset) // size * size + offset
    for length in range(lengths.get("step", size), size + 1, lengths.get("step", size)):
        if start + length > time_us:
            yield start, start + length


def windowed(events: Sequence[Event], window: Mapping[str, Any], *, is_keyed: bool) -> Table:
    found = defaultdict[Key, list[Event]](list)
    for event in events:
        for bounds in windows_of(window, event.time_us):
            found[(*bounds, *([event.key] if is_keyed else []))].append(event)
    return {key: aggregated(inside) for key, inside in found.items()}


def sessions(events: Sequence[Event], gap_us: int) -> Table:
    by_key = defaultdict[str, list[Event]](list)
    for event in sorted(events, key=lambda event: event.time_us):
        by_key[event.key].append(event)
    table: Table = {}
    for key, own in by_key.items():
        session: list[Event] = []
        for event in own:
            if session and event.time_us > session[-1].time_us + gap_us:
                table[session[0].time_us, session[-1].time_us + gap_us, key] = aggregated(session)
                session = []
            session.append(event)
        table[session[0].time_us, session[-1].time_us + gap_us, key] = aggregated(session)
    return table


def counted(events: Sequence[Event], count: int) -> Table:
    by_key = defaultdict[str, list[Event]](list)
    for event in sorted(events, key=lambda event: event.time_us):
        by_key[event.key].append(event)
    table: Table = {}
    for key, own in by_key.items():
        for number in range(len(own) // count):
            part = own[number * count : (number + 1) * count]
            table[key, number] = (part[0].time_us, part[-1].time_us + 1, *aggregated(part))
    return table


class WindowHarness(AggregateHarness):
    """Fills in the column of the filter's condition."""

    def feed(self, rows: Any, **more: Any) -> None:
        filled = [row | {"is_big": row["v"] is not None and row["v"] > 50} for row in rows]
        super().feed(filled, **more)


def harness_of(window: WindowArguments, *, is_keyed: bool = True) -> Any:
    return partial(
        WindowHarness,
        key_by=["k"] if is_keyed else [],
        schema=WINDOW_SCHEMA,
        aggregate=AGGREGATES,
        window=window,
        event_time="t",
    )


def table_of(rows: Any, keys: int) -> Table:
    return {row[:keys]: row[keys:] for row in flat(rows)}


def check_windows(case: Case, window: WindowArguments, expected: Table, *, is_keyed: bool = True, end: int = 1) -> None:
    """Every mode gives the oracle's table; and at the flip, the part of it that the backlog completes.

    `end`: where the end of a window is in a row's key.
    """
    keys = 2 + is_keyed
    for mode in MODES:
        outcome = play(case, mode, harness_of(window, is_keyed=is_keyed))
        assert table_of(outcome.table, keys) == expected, f"{mode}: all windows, once everything has fired"
        assert outcome.late == 0, f"{mode}: nothing is late that is within the bound"
        assert outcome.kept == 0, f"{mode}: no state is left when all windows are done"
        if outcome.at_flip is not None and "early_results_every" not in window:
            watermark_us = watermark(case)
            done = {key: row for key, row in expected.items() if key[end] <= watermark_us}
            assert table_of(outcome.at_flip, keys) == done, "windows up to the watermark fire in the backlog"


def watermark(case: Case) -> float:
    """At the flip."""
    return max((event.time_us - case.bound_ms * MS for event in case.events[: case.flip]), default=float("-inf"))


def settings_of(draw: st.DrawFn, **kind: Any) -> WindowArguments:
    window: dict[str, Any] = dict(kind)
    if draw(st.booleans()):
        window["allowed_lateness"] = "4ms"
    if draw(st.booleans()):
        window["early_results_every"] = "5ms"
    return window  # type: ignore[return-value]


@st.composite
def window_kinds(draw: st.DrawFn) -> WindowArguments:
    offset = draw(st.sampled_from([{}, {"offset": "3ms"}]))
    kind: dict[str, str] = draw(
        st.sampled_from(
            [
                {"tumbling": "7ms"},
                {"tumbling": "25ms"},
                {"sliding": "10ms", "slide": "5ms"},
                {"sliding": "10ms", "slide": "3ms"},
                {"sliding": "30ms", "slide": "30ms"},
                {"cumulating": "12ms", "step": "4ms"},
                {"cumulating": "30ms", "step": "6ms"},
            ]
        )
    )
    return settings_of(draw, **kind, **offset)


@st.composite
def session_kinds(draw: st.DrawFn) -> WindowArguments:
    return settings_of(draw, session=draw(st.sampled_from(["3ms", "5ms", "12ms"])))


@given(case=cases(), window=window_kinds(), is_keyed=st.booleans())
@local_cases(0.08)
def test_windows_hold_the_same_records_however_they_arrive(case: Case, window: WindowArguments, is_keyed: bool) -> None:
    kind = {name: text for name, text in window.items() if name not in ("allowed_lateness", "early_results_every")}
    check_windows(case, window, windowed(case.events, kind, is_keyed=is_keyed), is_keyed=is_keyed)


@given(case=cases(), window=session_kinds())
@local_cases(0.08)
def test_sessions_are_the_same_however_their_records_arrive(case: Case, window: WindowArguments) -> None:
    gap_us = int(str(window["session"]).removesuffix("ms")) * MS
    expected = sessions(case.events, gap_us)
    for mode in MODES:
        outcome = play(case, mode, harness_of(window))
        assert table_of(outcome.table, 3) == expected, f"{mode}: all sessions, once everything has fired"
        assert (outcome.late, outcome.kept) == (0, 0), mode
        if outcome.at_flip is not None and "early_results_every" not in window:
            so_far = sessions(case.events[: case.flip], gap_us)
            done = {key: row for key, row in so_far.items() if key[1] < watermark(case)}  # at its end it can be joined
            assert table_of(outcome.at_flip, 3) == done, "sessions before the watermark fire in the backlog"


@given(case=cases(in_order=True), count=st.integers(1, 4))
@local_cases(0.04)
def test_windows_of_so_many_records_are_the_same_when_records_come_in_order(case: Case, count: int) -> None:
    for mode in MODES:
        outcome = play(case, mode, harness_of({"count": count}))
        assert table_of(outcome.table, 2) == counted(case.events, count), mode


def test_the_cases_have_windows_that_are_open_at_the_flip_and_all_kinds_of_keys() -> None:
    def is_telling(case: Case) -> bool:
        window = {"tumbling": "25ms"}
        spans = [key for key in windowed(case.events[: case.flip], window, is_keyed=True) if key[1] > watermark(case)]
        live = windowed(case.events[case.flip :], window, is_keyed=True)
        is_shuffled = list(case.events) != sorted(case.events, key=lambda event: event.time_us)
        keys = {event.key for event in case.events}
        return bool(set(spans) & set(live)) and is_shuffled and {"old", "new", "both"} <= keys and bool(case.restores)

    find(cases(), is_telling, settings=settings(SPARK_CASES, max_examples=5000, phases=[Phase.generate]))


# --- timers ----------------------------------------------------------------------------------------------------------

LAST_US = 90 * MS  # no timer of a chain is registered beyond


class Alarms(KeyedProcessFunction):
    """Registers timers of its own and shared ones, deletes some, and lets each register the next one of its chain."""

    fired = ValueState(int, default=0)

    def process_element(self, record: Any, context: Any) -> None:
        v = record["v"]
        for timer in timers_of(context.timestamp, v):
            context.timers.register_event_time_timer(timer)
            context.timers.register_event_time_timer(timer)  # one per time: the second is the first
        unwanted = base_of(context.timestamp) + 7 * MS + 2
        context.timers.register_event_time_timer(unwanted)
        context.timers.delete_event_time_timer(unwanted)
        context.timers.delete_event_time_timer(context.timestamp + 200 * MS)  # never registered

    def on_timer(self, timestamp: int, context: Any) -> Iterator[dict[str, Any]]:
        self.fired.value += 1
        yield {"k": context.current_key, "at": timestamp, "nth": self.fired.value}
        following = next_of_chain(timestamp)
        if following is not None:
            context.timers.register_event_time_timer(following)


def timers_of(time_us: int, v: int) -> list[int]:
    """After the record's own time: one on a grid, so that records share it, and one more or less of its own."""
    return [(time_us // (5 * MS) + 1 + v % 3) * 5 * MS, base_of(time_us) + v % 40 * MS + 1]


def base_of(time_us: int) -> int:
    """After the record's own time, divisible by 5, so that what is added tells timers apart."""
    return (time_us // 5 + 1) * 5


def next_of_chain(timer_us: int) -> int | None:
    return timer_us + 10 * MS if timer_us % (10 * MS) == 0 and timer_us + 10 * MS <= LAST_US else None


def alarms(events: Sequence[Event]) -> Counter[Key]:
    timers = defaultdict[str, set[int]](set)
    for event in events:
        assert event.v is not None
        timers[event.key] |= set(timers_of(event.time_us, event.v))
    rows: list[Key] = []
    for key, times in timers.items():
        waiting, done = set(times), list[int]()
        while waiting:
            timer = min(waiting)
            waiting.remove(timer)
            done.append(timer)
            following = next_of_chain(timer)
            if following is not None:
                waiting.add(following)
        rows += [(key, timer, number) for number, timer in enumerate(done, 1)]
    return Counter(rows)


def rows_of(outcome: Outcome) -> Counter[Key]:
    return Counter(flat(outcome.rows))


@given(case=cases(values=st.integers(0, 100)))
@local_cases(0.12)
def test_timers_fire_once_each_in_order_whether_in_the_backlog_or_live(case: Case) -> None:
    make = partial(
        FunctionHarness, Alarms, key_by="k", schema=SCHEMA, output="k string, at bigint, nth bigint", event_time="t"
    )
    for mode in MODES:
        outcome = play(case, mode, make)
        assert rows_of(outcome) == alarms(case.events), mode
        assert Counter(flat(outcome.table)) == alarms(case.events), f"{mode}: restored harnesses know the rows before"


# --- process functions -----------------------------------------------------------------------------------------------

FAR_US = 1_000_000 * MS  # fires when the input ends
POISON = 13


def widened(span: list[int], v: int) -> list[int]:
    """[low, high] with one more value in between; [] before the first one."""
    return [min([v, *span]), max([v, *span])]


class Ledger(KeyedProcessFunction):
    """Keeps state of every kind; windows by hand, and a summary of each key at the end."""

    count = ValueState(int, default=0)
    newest = ValueState(int)
    values = ListState(int)
    highest = ReducingState(int, reduce=max)
    spread = AggregatingState[int, list[int], int](list[int], create=list, add=widened, result=lambda s: s[1] - s[0])
    buckets = MapState(int, int)

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        self.take(record["k"], context.timestamp, record["v"], context)
        if record["v"] == POISON:
            raise ValueError(record["v"])  # after it has changed everything
        yield {"k": record["k"], "what": "seen", "at": context.timestamp, "n": record["v"], "text": None}

    def take(self, key: str, time_us: int, v: int, context: Any) -> None:
        self.count.value += 1
        self.newest.value = max(time_us, time_us if self.newest.value is None else self.newest.value)
        self.values.append(v)
        self.highest.add(v)
        self.spread.add(v)
        end = (time_us // (10 * MS) + 1) * 10 * MS
        self.buckets[end] = self.buckets.get(end, 0) + v
        context.timers.register_event_time_timer(end)
        context.timers.register_event_time_timer(FAR_US)
        if v % 3 == 0:
            context.output("thirds", {"k": key, "v": v})

    def on_timer(self, timestamp: int, context: Any) -> dict[str, Any]:
        key = context.current_key
        if timestamp != FAR_US:
            return {"k": key, "what": "bucket", "at": timestamp, "n": self.buckets.pop(timestamp), "text": None}
        summary = repr(
            (self.newest.value, sorted(self.values), self.highest.value, self.spread.value, {**self.buckets})
        )
        return {"k": key, "what": "summary", "at": timestamp, "n": self.count.value, "text": summary}


class LedgerByKey(KeyedBatchProcessFunction):
    """The same, for all records of a key at once. `seen` rows are given as a table."""

    count, newest, values = ValueState(int, default=0), ValueState(int), ListState(int)
    highest, spread, buckets = Ledger.highest, Ledger.spread, MapState(int, int)

    take, on_timer = Ledger.take, Ledger.on_timer

    def process_rows(self, rows: Any, context: Any) -> Iterator[dict[str, Any]]:
        for record in rows.to_pylist():
            (time_us,) = next(flat([{"t": record["t"]}]))
            self.take(record["k"], time_us, record["v"], context)  # type: ignore[misc]
            yield {"k": record["k"], "what": "seen", "at": time_us, "n": record["v"], "text": None}


def ledger(events: Sequence[Event]) -> Counter[Key]:
    rows: list[Key] = []
    for key in {event.key for event in events}:
        own = [event for event in events if event.key == key]
        values = [event.v for event in own if event.v is not None]
        buckets = Counter[int]()
        for event in own:
            assert event.v is not None
            rows.append((key, "seen", event.time_us, event.v, None))
            buckets[(event.time_us // (10 * MS) + 1) * 10 * MS] += event.v
        rows += [(key, "bucket", end, total, None) for end, total in buckets.items()]
        newest = max(event.time_us for event in own)
        summary = repr((newest, sorted(values), max(values), max(values) - min(values), {}))
        rows.append((key, "summary", FAR_US, len(own), summary))
    return Counter(rows)


@pytest.mark.parametrize("function", [Ledger, LedgerByKey])
@given(case=cases(values=st.integers(-50, 50) | st.just(POISON)))
@local_cases(0.08)
def test_a_function_keeps_the_same_state_and_gives_the_same_rows_in_every_mode(
    function: type[KeyedProcessFunction | KeyedBatchProcessFunction], case: Case
) -> None:
    make = partial(
        FunctionHarness,
        function,
        key_by="k",
        schema=SCHEMA,
        output="k string, what string, at bigint, n bigint, text string",
        outputs={"thirds": "k string, v bigint"},
        on_error="dead-letter",
        event_time="t",
    )
    fails = function is Ledger
    good = [event for event in case.events if event.v != POISON or not fails]
    thirds = Counter((event.key, event.v) for event in good if event.v is not None and event.v % 3 == 0)
    for mode in MODES:
        outcome = play(case, mode, make, sides=("thirds", "dead-letter"))
        assert rows_of(outcome) == ledger(good), mode
        assert Counter(flat(outcome.sides["thirds"])) == thirds, mode
        assert len(outcome.sides["dead-letter"]) == len(case.events) - len(good), f"{mode}: records that failed"
