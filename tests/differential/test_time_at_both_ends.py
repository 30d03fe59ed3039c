"""Event times at both ends of their type: each step has one answer in all modes, or refuses the times in all modes.

Arithmetic on such times may wrap or saturate, which a mode may hide: batch has no watermark that comes near them.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mixedmode.config.execution import RuntimeMode
from mixedmode.errors import InvalidJobError
from mixedmode.executor.local_run import LocalRun
from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.process import CoGroupFunction, KeyedCoProcessFunction, KeyedProcessFunction
from mixedmode.testing.local_plan import local_plan
from mixedmode.testing.places import job_in_folder
from mixedmode.time import MAX_TIME_US, MIN_TIME_US
from mixedmode.time.windows import TIME_LIMIT_US
from tests.differential.stories import local_cases

DDL = "k string, v bigint, t timestamp"
FIRED = "k string, at bigint, fired boolean"
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
SECOND = 1_000_000
ENDS = (MIN_TIME_US, -TIME_LIMIT_US, TIME_LIMIT_US, MAX_TIME_US)
NEAR_ENDS = {time + by for time in ENDS for by in (-2, -1, 0, 1, 2, -SECOND, SECOND)}
TIMES = sorted(time for time in NEAR_ENDS | {0} if MIN_TIME_US <= time <= MAX_TIME_US)
#: the beginnings of the refusals of windows, and of functions, whose records are Python's
REFUSALS = (
    "a record's event time is so far from now",
    "a record has a date or a time that Python cannot hold",
    "an as-of join needs one row of the right for each key and time",
    "a broadcast input needs one row for each key and time",
)
Record = tuple[int, str, int, str]  # time, key, value, source
Build = Callable[[Stream, Stream], Stream]


class Timers(KeyedProcessFunction):
    """Emits each record's time, and those of timers at this time and at the ends, which are marked.

    A timer that is due is registered again by a record of the next epoch, so its row may come several times.
    """

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        del record
        for time in (context.timestamp, MAX_TIME_US, MIN_TIME_US):
            context.timers.register_event_time_timer(time)
        yield {"k": context.current_key, "at": context.timestamp, "fired": False}

    def on_timer(self, timestamp: int, context: Any) -> dict[str, Any]:
        return {"k": context.current_key, "at": timestamp, "fired": True}


class InForce(KeyedProcessFunction):
    """Emits the number of rows of the broadcast in force at each record."""

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        del record
        yield {"k": context.current_key, "at": len(context.broadcast["r"].as_of(context.timestamp))}


class Both(KeyedCoProcessFunction):
    """Emits the times of the records of both sides."""

    def process_left(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        del record
        context.timers.register_event_time_timer(context.timestamp)
        yield {"k": context.current_key, "at": context.timestamp, "fired": False}

    process_right = process_left

    def on_timer(self, timestamp: int, context: Any) -> dict[str, Any]:
        return {"k": context.current_key, "at": timestamp, "fired": True}


class Counts(CoGroupFunction):
    """Emits the number of rows of each side."""

    def co_group(self, left: pa.Table, right: pa.Table, context: Any) -> list[dict[str, Any]]:
        del context
        return [{"l": left.num_rows, "r": right.num_rows}]


def aggregated(**window: Any) -> Build:
    return lambda rows, _: rows.key_by("k").window(**window).aggregate(n="count(*)", s="sum(v)")


def deduplicated(**settings: Any) -> Build:
    return lambda rows, _: rows.key_by("k").deduplicate(**settings)


def as_of(**settings: Any) -> Build:
    given: Any = {"tie_break": "v", "select": ["left.k", "left.v", "right.v AS rv"], **settings}
    given = {name: value for name, value in given.items() if value is not None}
    return lambda rows, other: rows.as_of_join(other, on="k", type="left", **given)


def interval(kind: Any, within: Any = ("-1s", "2s")) -> Build:
    select = ["left.t AS lt", "right.t AS rt"] if kind not in ("semi", "anti") else ["left.k", "left.t"]
    return lambda rows, other: rows.interval_join(other, on="k", within=within, type=kind, select=select)


STEPS: dict[str, Build] = {
    "tumbling": aggregated(tumbling="3s", offset="1s"),
    "tumbling days": aggregated(tumbling="1d", time_zone="Europe/Berlin"),
    "sliding": aggregated(sliding="3s", slide="2s"),
    "cumulating": aggregated(cumulating="4s", step="1s"),
    "session": aggregated(session="2s"),
    "lateness": aggregated(tumbling="3s", allowed_lateness="3s"),
    "count": aggregated(count=2),
    "first and last": lambda rows, _: rows.key_by("k").aggregate(f="first(v)", l="last(v)"),
    "top": lambda rows, _: rows.key_by("k").top(2, order_by="t desc"),
    "first": deduplicated(keep="first", tie_break="v"),
    "last": deduplicated(keep="last", tie_break="v"),
    "first within": deduplicated(keep="first", tie_break="v", within="2s"),
    "any within": deduplicated(keep="any", within="2s"),
    "over": lambda rows, _: rows.key_by("k").over(n="rank()", s="sum(v)", b="lag(v)", tie_break="v"),
    "process": lambda rows, _: rows.key_by("k").process(Timers, output=FIRED),
    "broadcast": lambda rows, other: rows.key_by("k").process(
        InForce,
        output="k string, at bigint",
        broadcast={"r": other.broadcast(key=["k", "v"], tolerance="2s")},
    ),
    "broadcast of one row for each time": lambda rows, other: rows.key_by("k").process(
        InForce, output="k string, at bigint", broadcast={"r": other.broadcast(key="k")}
    ),
    "co-process": lambda rows, other: rows.co_process(other, on="k", function=Both, output=FIRED),
    "co-group": lambda rows, other: rows.co_group(other, on="k", function=Counts, output="l int, r int", tumbling="3s"),
    "co-group sessions": lambda rows, other: rows.co_group(
        other, on="k", function=Counts, output="l int, r int", session="2s"
    ),
    "as-of": as_of(tolerance="2s"),
    "as-of strictly": as_of(strictly=True),
    "as-of without tie-break": as_of(tie_break=None),
    **{f"interval {kind}": interval(kind) for kind in ("inner", "left", "right", "full", "semi", "anti")},
}


def job_of(build: Build) -> Job:
    source = Source.parquet("in", schema=DDL, event_time="t", max_ahead="none")
    job = Job("ends", sources={"a": source, "b": source}, mode="batch", parallelism=2, max_parallelism=8)
    return job.output("o", build(job.source("a"), job.source("b")), Sink.parquet("out"))


def answer(build: Build, epochs: Sequence[Sequence[Record]], mode: RuntimeMode) -> Counter[Any] | str:
    """The rows of a job in a mode, or the beginning of its refusal."""
    with tempfile.TemporaryDirectory() as name:
        placed = job_in_folder(job_of(build), {"a": DDL, "b": DDL}, Path(name), mode)
        plan = local_plan(placed.spec, placed.where)
        run = LocalRun(placed.spec, plan, Path(name), 0)
        try:
            for number, records in enumerate(epochs):
                tables = {source: [rows_of(records, source)] for source in ("a", "b")}
                if number or mode is RuntimeMode.STREAMING:
                    run.run_live(tables)
                else:
                    (run.run_backlog if mode is RuntimeMode.MIXED else run.run_batch)(tables)
            if mode is not RuntimeMode.BATCH:
                run.end()
        except InvalidJobError as error:
            return next((text for text in REFUSALS if str(error).startswith(text)), str(error))
        finally:
            run.close()
        return net(run.outputs["o"], plan.results["o"].key_columns)


def rows_of(records: Sequence[Record], source: str) -> pa.Table:
    rows = [{"k": k, "v": v, "t": t} for t, k, v, of in records if of == source]
    return pa.Table.from_pylist(rows, SCHEMA)


def net(tables: Sequence[pa.Table], key_columns: Sequence[str]) -> Counter[Any]:
    """The rows that remain of a changelog; times as whole numbers, since Python's datetime has none of these."""
    added, latest = Counter[Any](), dict[Any, Any]()
    for table in tables:
        columns = [one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one for one in table.columns]
        for row in pa.table(columns, names=table.column_names).to_pylist():
            op = row.pop("_op", None)
            if key_columns:
                latest[tuple(row[name] for name in key_columns)] = None if op == "delete" else tuple(row.items())
            else:
                added[tuple(row.items())] += 1
    return added + Counter(row for row in latest.values() if row is not None)


def some_records(rng: random.Random) -> list[Record]:
    """Records in the order of their times, so that none is late; the times are near each other more often than not."""
    near = rng.sample(TIMES, rng.randint(1, 2))
    if rng.random() < 0.5:
        near = rng.choice([[end, end + by] for end in (MIN_TIME_US, MAX_TIME_US - SECOND) for by in (0, 1, SECOND)])
    return sorted((rng.choice(near), rng.choice("xy"), number, rng.choice("ab")) for number in range(rng.randint(1, 7)))


@pytest.mark.parametrize("name", STEPS)
@given(seed=st.integers(0, 2**40))
@example(seed=3891)  # a row at the least time waits, and the watermark passes only this time
@local_cases(0.005)
def test_every_mode_has_the_answer_of_batch(name: str, seed: int) -> None:
    build, rng = STEPS[name], random.Random(seed)
    seen = some_records(rng)
    cuts = sorted(rng.randint(0, len(seen)) for _ in range(2))
    pieces = [seen[start:end] for start, end in zip([0, *cuts], [*cuts, len(seen)], strict=True)]
    wanted = told(name, answer(build, [seen], RuntimeMode.BATCH))
    assert isinstance(wanted, Counter) or wanted in REFUSALS
    for mode in (RuntimeMode.MIXED, RuntimeMode.STREAMING):
        assert told(name, answer(build, pieces, mode)) == wanted, mode


def told(name: str, found: Counter[Any] | str) -> Counter[Any] | str:
    """The answer, without what may differ: which of the rows of one time `any` keeps, and how often a timer fires."""
    if isinstance(found, str):
        return found
    if name in ("process", "co-process"):
        return Counter({row: 1 if ("fired", True) in row else count for row, count in found.items()})
    if name != "any within":
        return found
    return Counter({tuple(pair for pair in row if pair[0] != "v"): count for row, count in found.items()})
