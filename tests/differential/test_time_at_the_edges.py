"""Windows and sessions far from 1970, in days of a time zone, with records and watermarks exactly at their bounds.

The oracle is plain Python: it tries the windows around a record. Tables are checked after each live epoch, so a window
fires in the epoch in which the watermark reaches its end, and a session when the watermark is beyond it.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixedmode.testing.harness
from mixedmode.testing import AggregateHarness
from mixedmode.testing.outputs import Outputs
from mixedmode.testing.snapshot import decode_table
from mixedmode.time import MIN_TIME_US
from tests.differential.stories import local_cases

MS, DAY, LIMIT = 1_000, 86_400_000_000, 2**62
YEAR_1, YEAR_10000, YEAR_1582 = -62_135_596_800_000_000, 253_402_300_800_000_000, -12_219_292_800_000_000
CLOCKS_CHANGE = (1_616_893_200_000_000, 1_635_642_000_000_000)  # of 2021, in Berlin
PLACES = (0, -1, -DAY, YEAR_1, YEAR_1582, YEAR_10000, LIMIT - 20 * DAY, -LIMIT + 20 * DAY, 2**53, -(2**53))
ZONES = ("Europe/Berlin", "America/New_York", "Pacific/Apia", "Africa/Cairo", "America/Sao_Paulo", "Asia/Kathmandu")
AGGREGATE = {"n": "count(*)", "s": "sum(v)", "first": "first(v)", "last": "last(v)"}
Event = tuple[int, str, int | None]  # time, key, value
Key = tuple[int, int, str | None]


def day_begins(day: int, offset: int, zone: str) -> int:
    naive = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day, microseconds=offset)).replace(tzinfo=ZoneInfo(zone))
    ahead = naive.utcoffset()
    assert ahead is not None
    return day * DAY + offset - ahead // timedelta(microseconds=1)


def windows_of(window: Mapping[str, Any], time: int) -> Iterator[tuple[int, int]]:
    """The bounds of the windows of a record. With a time zone, they are counted in its days."""
    zone, offset = window.get("time_zone"), window.get("offset", 0)
    size = next(window[kind] for kind in ("tumbling", "sliding", "cumulating") if kind in window)
    slide, step = window.get("slide", size), window.get("step", size)
    tick, unit = time - offset, 1
    if zone is not None:
        around = range(time // DAY - 2, time // DAY + 3)
        tick = next(d for d in around if day_begins(d, offset, zone) <= time < day_begins(d + 1, offset, zone))
        unit = DAY

    def at(ticks: int) -> int:
        return ticks + offset if zone is None else day_begins(ticks, offset, zone)

    size, slide, step = size // unit, slide // unit, step // unit
    for start in range(tick // slide * slide, tick - size, -slide):
        ends = range(start + step, start + size + 1, step) if "cumulating" in window else (start + size,)
        yield from ((at(start), at(end)) for end in ends if end > tick)


def results(events: Sequence[Event]) -> tuple[Any, ...]:
    ordered = sorted(events, key=lambda event: (event[0], event[2] is not None, event[2] or 0))
    values = [v for _, _, v in ordered if v is not None]
    return len(ordered), sum(values) if values else None, ordered[0][2], ordered[-1][2]


def expected(window: Mapping[str, Any], lateness: int, seen: Sequence[tuple[Event, int]]) -> tuple[dict[Key, Any], int]:
    """The table of all windows, and the number of late records.  seen: records, each with the watermark before it."""
    found, late = defaultdict[Key, list[Event]](list), 0
    for event, watermark in seen:
        time, key, _ = event
        over = watermark - lateness
        bounds = [(time, time + window["session"])] if "session" in window else list(windows_of(window, time))
        bounds = [(start, end) for start, end in bounds if watermark == MIN_TIME_US or end > over]
        late += not bounds
        for start, end in bounds:
            found[(0, 0, key) if "session" in window else (start, end, key)].append(event)
    if "session" in window:
        found = sessions(found, window["session"])
    return {key: results(events) for key, events in found.items()}, late


def sessions(found: Mapping[Key, list[Event]], gap: int) -> defaultdict[Key, list[Event]]:
    table = defaultdict[Key, list[Event]](list)
    for (_, _, key), events in found.items():
        session: list[Event] = []
        for event in [*sorted(events, key=lambda event: event[0]), None]:
            if session and (event is None or event[0] > session[-1][0] + gap):
                table[session[0][0], session[-1][0] + gap, key] = session
                session = []
            session = [*session, event] if event is not None else session
    return table


def some_window(rng: random.Random) -> tuple[dict[str, Any], int, int]:
    """A window, its unit, and a place on the time line."""
    unit, place = rng.choice([MS, 1000 * MS, 3_600_000 * MS, DAY]), rng.choice([*PLACES, *CLOCKS_CHANGE])
    kind = rng.choice(["tumbling", "sliding", "cumulating", "session"])
    has_zone = kind != "session" and abs(place) < 2**52 and rng.random() < 0.4
    unit = DAY if has_zone else unit
    window: dict[str, Any] = {kind: unit * rng.choice([2, 3, 7] if kind == "sliding" else [2, 4])}
    window |= {"slide": unit * rng.choice([1, 2])} if kind == "sliding" else {}
    window |= {"step": unit * rng.choice([1, 2])} if kind == "cumulating" else {}
    if kind != "session" and rng.random() < 0.4:
        window["offset"] = rng.randrange(0, (DAY if has_zone else window[kind]) // MS) * MS
    return window | ({"time_zone": rng.choice(ZONES)} if has_zone else {}), unit, place


def some_epochs(
    rng: random.Random, window: Mapping[str, Any], unit: int, place: int, lateness: int
) -> list[tuple[list[Event], int]]:
    """Records of epochs, and the watermark after each; the times are often at bounds, one less, or one more."""
    epochs: list[tuple[list[Event], int]] = []
    times, watermark, gap = [place], MIN_TIME_US, window.get("session", 0)
    for _ in range(rng.randint(1, 6)):
        events: list[Event] = []
        for _ in range(rng.choice([0, 1, 3, 10])):
            time = place + rng.randrange(-6, 7) * unit + rng.choice([-1, 0, 0, 1, window.get("offset", 0)])
            if gap and rng.random() < 0.5:
                time = rng.choice(times) + rng.choice([-gap, gap]) + rng.choice([-1, 0, 0, 1])
            if gap and watermark != MIN_TIME_US and time + gap > watermark - lateness > time:
                continue  # it is behind the watermark and not late, so it may have belonged to a session that is over
            times.append(time)
            events.append((time, rng.choice("ab"), rng.choice([None, 1, 2, -5])))
        reached = rng.choice(times) + rng.choice([-1, 0, 1]) + rng.choice([0, gap, lateness, 2 * unit])
        watermark = max(watermark, reached) if rng.random() < 0.8 else watermark
        epochs.append((events, watermark))
    return epochs


@pytest.fixture(autouse=True)
def times_beyond_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the harness have times as whole numbers."""

    def whole(table: pa.Table) -> pa.Table:
        columns = [one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one for one in table.columns]
        return pa.table(columns, names=table.column_names)

    monkeypatch.setattr(Outputs, "_rows", lambda _self, table: whole(table).to_pylist())
    monkeypatch.setattr(mixedmode.testing.harness, "decode_table", lambda given: whole(decode_table(given)))


@given(seed=st.integers(0, 2**40), mode=st.sampled_from(["batch", "streaming", "mixed"]))
@local_cases(0.3)
def test_windows_at_the_edges_of_time_have_the_answer_of_the_records(
    seed: int, mode: Literal["batch", "streaming", "mixed"]
) -> None:
    rng = random.Random(seed)
    window, unit, place = some_window(rng)
    lateness = rng.choice([0, 0, MS, unit, 3 * unit])
    settings: Any = {name: f"{value // MS}ms" if isinstance(value, int) else value for name, value in window.items()}
    settings |= {"allowed_lateness": f"{lateness // MS}ms"} if lateness else {}
    harness = AggregateHarness(
        aggregate=AGGREGATE,
        schema="k string, v bigint, t timestamp",
        key_by="k",
        window=settings,
        event_time="t",
        parallelism=rng.choice([1, 2, 4]),
        backlog=mode != "streaming",
    )
    epochs = some_epochs(rng, window, unit, place, lateness)
    flip = {"batch": len(epochs), "streaming": 0, "mixed": rng.randint(0, len(epochs))}[mode]
    seen: list[tuple[Event, int]] = []
    before = MIN_TIME_US
    for number, (events, watermark) in enumerate(epochs):
        if mode == "mixed" and number == flip:
            harness.flip()
        seen += [(event, MIN_TIME_US if number < flip else before) for event in events]
        rows = [{"k": k, "v": v, "t": t} for t, k, v in events]
        harness.feed(rows, watermark=watermark) if watermark != MIN_TIME_US else harness.feed(rows)
        before = watermark
        if number >= flip:
            table, _ = expected(window, lateness, seen)
            fired = {k: row for k, row in table.items() if k[1] + ("session" in window) <= watermark != MIN_TIME_US}
            assert table_of(harness) == fired
            harness = harness.restore(harness.snapshot(), parallelism=2) if rng.random() < 0.2 else harness
    harness.end()
    assert (table_of(harness), harness.records_late) == expected(window, lateness, seen)


def table_of(harness: AggregateHarness) -> dict[Key, Any]:
    rows = harness.table()
    return {(row["window_start"], row["window_end"], row["k"]): tuple(row[name] for name in AGGREGATE) for row in rows}
