"""Event time through chains of keyed steps: windows of windows, sessions of sessions, windows after functions.

Whatever the mode, the flip, the epochs, the parallelism and the restarts are, the answer is that of the records alone.
The oracle is plain Python: each step is a function from a list of rows to a list of rows.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.driver.engine import Engine
from mixedmode.driver.phases import Until
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.process import KeyedProcessFunction
from mixedmode.testing.local_plan import local_plan
from tests.differential.stories import case_folder, local_cases
from tests.differential.timelines import MODES, MS, Case, Event, Mode, cases, microseconds
from tests.harness import SPARK, ManualClock, manifests, output_rows, run, write_parquet
from tests.local_engine import LocalEngine, World, local_session

Row = dict[str, Any]
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


class Doubled(KeyedProcessFunction):
    """Emits each record, and its negative a moment later, by a timer. Both have event times of their own."""

    def process_element(self, record: Any, context: Any) -> Iterator[Row]:
        context.timers.register_event_time_timer(context.timestamp + 2 * MS)
        yield {"k": record["k"], "v": record["v"], "n": 1, "at": context.timestamp}

    def on_timer(self, timestamp: int, context: Any) -> Row:
        return {"k": context.current_key, "v": -1, "n": 1, "at": timestamp}


@dataclass(frozen=True)
class Step:
    """A step of a job, and what it makes of rows in plain Python. `emits_windows`: its rows have the bounds of one."""

    add: Callable[[Job], Job]
    apply: Callable[[Sequence[Row]], list[Row]]
    emits_windows: bool = True
    has_key: bool = True
    has_rank: bool = False


def tumbling(size_ms: int, *, is_keyed: bool = True) -> Step:
    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            start = row["t"] // (size_ms * MS) * size_ms * MS
            found[start, row["k"] if is_keyed else None].append(row)
        return [of_window(start, start + size_ms * MS, k, inside) for (start, k), inside in found.items()]

    return Step(partial(windowed, is_keyed=is_keyed, tumbling=f"{size_ms}ms"), apply, has_key=is_keyed)


def peaks(size_ms: int, *, is_keyed: bool = True) -> Step:
    """Windows with a function that cannot retract a row, so that the windows keep their rows if these change."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            found[row["t"] // (size_ms * MS) * size_ms * MS, row["k"] if is_keyed else None].append(row)
        return [
            of_window(start, start + size_ms * MS, k, inside) | {"v": greatest(row["v"] for row in inside)}
            for (start, k), inside in found.items()
        ]

    return Step(partial(windowed, is_keyed=is_keyed, v="max(v)", tumbling=f"{size_ms}ms"), apply, has_key=is_keyed)


def session(gap_ms: int) -> Step:
    """Sessions of the rows. One that ends before a row's `over_us` is over: the row does not join it."""

    def sessions(rows: Sequence[Row]) -> list[list[Row]]:
        by_key = defaultdict[Any, list[Row]](list)
        for row in sorted(rows, key=lambda row: row["t"]):
            by_key[row["k"]].append(row)
        found = []
        for own in by_key.values():
            ends = [i + 1 for i, (a, b) in enumerate(pairwise(own)) if b["t"] - a["t"] > gap_ms * MS]
            found += [own[first:end] for first, end in pairwise([0, *ends, len(own)])]
        return found

    def end(session: list[Row]) -> int:
        return int(session[-1]["t"]) + gap_ms * MS

    def apply(rows: Sequence[Row]) -> list[Row]:
        ended, still_open = list[list[Row]](), list[list[Row]]()
        for over_us, accepted in groupby(rows, key=lambda row: row.get("over_us", 0)):
            ended += [session for session in still_open if end(session) < over_us]
            still_open = [session for session in still_open if end(session) >= over_us]
            still_open = sessions([*(row for session in still_open for row in session), *accepted])
        return [of_window(own[0]["t"], end(own), own[0]["k"], own) for own in (*ended, *still_open)]

    return Step(partial(windowed, is_keyed=True, session=f"{gap_ms}ms"), apply)


def final(*, is_keyed: bool) -> Step:
    """An aggregate over the rows of each window."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            found[row["window_start"], row["window_end"], row["k"] if is_keyed else None].append(row)
        return [of_window(start, end, k, inside) for (start, end, k), inside in found.items()]

    def add(job: Job) -> Job:
        key = ["window_start", "window_end", *(["k"] if is_keyed else [])]
        return job.key_by(*key).aggregate(v="sum(v)", n="sum(n)")

    return Step(add, apply, has_key=is_keyed)


def best() -> Step:
    """The two best rows of each window."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            found[row["window_start"], row["window_end"]].append(row)
        return [row for inside in found.values() for row in sorted(inside, key=by_value_and_key)[:2]]

    def add(job: Job) -> Job:
        return job.key_by("window_start", "window_end").top(2, order_by=["v desc", "k"])

    return Step(add, apply, has_rank=True)


def greatest_of_window() -> Step:
    """The row of each window with the greatest v, and of those the one with the greatest k."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            found[row["window_start"], row["window_end"]].append(row)
        return [max(inside, key=lambda row: told_order(row["v"], row["k"], row["n"])) for inside in found.values()]

    def add(job: Job) -> Job:
        return job.key_by("window_start", "window_end").deduplicate(keep="last", tie_break=["v", "k", "n"])

    return Step(add, apply)


def told_order(*values: Any) -> Any:
    """A key that orders NULL before all values."""
    return [(False,) if value is None else (True, value) for value in values]


def by_value_and_key(row: Row) -> Any:
    """Order rows as `v desc, k` does, with NULL last in the first and first in the second, and then by n."""
    v = float("inf") if row["v"] is None else -row["v"]
    return v, row["k"] is not None, row["k"] or "", row["n"]


def earliest() -> Step:
    """The first row of each key by event time, then by v, then by n."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        by_key_of = defaultdict[Any, list[Row]](list)
        for row in rows:
            by_key_of[row["k"]].append(row)
        return [min(own, key=by_time_and_value) for own in by_key_of.values()]

    def add(job: Job) -> Job:
        return job.key_by("k").deduplicate(keep="first", tie_break=["v", "n"])

    return Step(add, apply, emits_windows=False)


def by_time_and_value(row: Row) -> Any:
    return row["t"], row["v"] is not None, row["v"] or 0, row["n"]


def function() -> Step:
    def apply(rows: Sequence[Row]) -> list[Row]:
        timers = {(row["k"], row["t"] + 2 * MS) for row in rows}
        return [
            *({"k": row["k"], "v": row["v"], "n": 1, "t": row["t"]} for row in rows),
            *({"k": k, "v": -1, "n": 1, "t": time_us} for k, time_us in timers),
        ]

    def add(job: Job) -> Job:
        return job.key_by("k").process(Doubled, output="k string, v bigint, n bigint, at timestamp", event_time="at")

    return Step(add, apply, emits_windows=False)


def by_key() -> Step:
    """An aggregate without a window, the last step."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        found = defaultdict[Any, list[Row]](list)
        for row in rows:
            found[row["k"]].append(row)
        return [{"k": k, **totals(inside), "t": None} for k, inside in found.items()]

    return Step(lambda job: job.key_by("k").aggregate(v="sum(v)", n="sum(n)"), apply, emits_windows=False)


def by_word() -> Step:
    """An aggregate by a computed key, which has another name in the output."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        return by_key().apply([row | {"k": f"{row['k']}!"} for row in rows])

    def add(job: Job) -> Job:
        job = job.key_by("concat(k, '!') AS word").aggregate(v="sum(v)", n="sum(n)")
        return job.sql("SELECT n, v, word AS k FROM previous")

    return Step(add, apply, emits_windows=False)


def windowed(job: Job, *, is_keyed: bool, v: str = "sum(v)", **window: Any) -> Job:
    if is_keyed:
        return job.key_by("k").window(**window).aggregate(v=v, n="sum(n)")
    return job.window(**window).aggregate(v=v, n="sum(n)")


def totals(rows: Sequence[Row]) -> Row:
    return {name: total(row[name] for row in rows) for name in ("v", "n")}


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def of_window(start_us: int, end_us: int, k: str | None, rows: Sequence[Row]) -> Row:
    return {"window_start": start_us, "window_end": end_us, "k": k, **totals(rows), "t": end_us - 1}


@st.composite
def chains(draw: st.DrawFn) -> list[Step]:
    """Two to four steps, of which each can read what the one before emits."""
    steps: list[Step] = []
    for _ in range(draw(st.integers(2, 4))):
        before = steps[-1] if steps else None
        has_key = before is None or before.has_key
        kinds: list[Callable[[], Step]] = [partial(tumbling, draw(st.sampled_from([5, 20, 60])), is_keyed=has_key)]
        kinds.append(partial(tumbling, 30, is_keyed=False))
        if has_key:
            kinds += [partial(session, draw(st.sampled_from([3, 10, 25]))), function, earliest]
        if before is not None and before.emits_windows:
            kinds += [partial(final, is_keyed=False), *([partial(final, is_keyed=True)] if has_key else [])]
            kinds += [best] * (has_key and not any(step.has_rank for step in steps))
            kinds += [greatest_of_window] * has_key
        steps.append(draw(st.sampled_from(kinds))())
    if steps[-1].has_key and draw(st.booleans()):
        steps.append(by_key())
    return steps


def pieces(case: Case, mode: Mode) -> list[pa.Table]:
    """The records of the epochs; the first one is the backlog in mixed and batch mode."""
    live = [[event.row | {"n": 1} for event in events] for events in case.epochs(mode)]
    before = case.events[: {"mixed": case.flip, "streaming": 0, "batch": len(case.events)}[mode]]
    history = [[event.row | {"n": 1} for event in before]] if mode != "streaming" else []
    return [pa.Table.from_pylist(rows, SCHEMA) for rows in [*history, *live]]


def play(case: Case, mode: Mode, chain: Sequence[Step], base: Path, spark: SparkSession | None) -> list[Row]:
    """Run the case, and stop and start again after the epochs that it names. Return the output."""
    inputs, world, tables = base / "in", World(lost={0} if case.slices > 1 else set()), pieces(case, mode)
    inputs.mkdir(parents=True)
    is_batch, parallelism = mode == "batch", case.parallelism

    def arrive(number: int) -> None:
        if spark is None:
            world.files[f"{number:03}"] = tables[number]
        else:
            write_parquet(inputs, f"{number:03}.parquet", tables[number])

    def start(until: Until, feed: Sequence[Callable[[], object]] = ()) -> None:
        source = Source.parquet(
            inputs,
            schema="k string, v bigint, n bigint, t timestamp",
            event_time="t",
            out_of_orderness=f"{case.bound_ms}ms",
            **({"bounded": True} if is_batch else {"max_files_per_epoch": 1}),
        )
        job = Job(
            "chain",
            sources={"t": source},
            mode=mode,
            checkpoint_dir=None if is_batch else base / "checkpoints",
            parallelism=parallelism,
            max_parallelism=8,
            spark=SPARK,
        )
        for step in chain:
            job = step.add(job)
        session = local_session(world) if spark is None else spark
        engine = LocalEngine if spark is None else Engine
        run(job.write(Sink.parquet(base / "out")), session, feed=feed, until=until, engine=engine, clock=Ticking())

    first = 1 if mode != "streaming" else 0
    for number in range(first):
        arrive(number)
    feed: list[Callable[[], object]] = []
    for number in range(first, len(tables)):
        feed.append(partial(arrive, number))
        if number - first in case.restores:
            start(Until.IDLE, feed)
            feed, parallelism = [], case.restores[number - first]
    start(Until.DRAINED, feed)
    return output_rows(base / "out") if any((base / "out").glob("part-*")) else []


def told(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Rows as values that can be compared, in any order."""

    def value(row: Mapping[str, Any], name: str) -> Any:
        found = row.get(name)
        return microseconds(found) if isinstance(found, datetime) else found

    names = ("window_start", "window_end", "k", "v", "n", "c")
    return Counter(tuple(value(row, name) for name in names) for row in rows)


def expected(case: Case, chain: Sequence[Step]) -> Counter[tuple[Any, ...]]:
    rows: list[Row] = [event.row | {"n": 1} for event in case.events]
    for step in chain:
        rows = step.apply(rows)
    return told(rows)


@given(case=cases(), chain=chains())
@local_cases(0.02)
def test_steps_after_windows_and_functions_have_event_time_too(case: Case, chain: list[Step]) -> None:
    for mode in MODES:
        with case_folder() as base:
            assert told(play(case, mode, chain, base, None)) == expected(case, chain), mode


@st.composite
def changing(draw: st.DrawFn) -> tuple[Case, list[Step]]:
    """Windows that late records change, and one or two steps over them. No record is too late for a change."""
    case = draw(cases())
    size, gap = draw(st.sampled_from([5, 10])), draw(st.sampled_from([3, 10]))
    first, kind = draw(
        st.sampled_from(
            [
                (tumbling(size), {"tumbling": f"{size}ms"}),
                (tumbling(size, is_keyed=False), {"tumbling": f"{size}ms"}),
                (session(gap), {"session": f"{gap}ms"}),
            ]
        )
    )
    more = {"early_results_every": "2ms"} if draw(st.booleans()) else {}
    settings: dict[str, Any] = {**kind, **more}
    add = partial(windowed, is_keyed=first.has_key, allowed_lateness=f"{max(1, case.bound_ms)}ms", **settings)
    steps = [replace(first, add=add)]
    if draw(st.booleans()):
        steps.append(
            draw(
                st.sampled_from(
                    [final(is_keyed=False), *([final(is_keyed=True), best(), greatest_of_window()] * first.has_key)]
                )
            )
        )
    is_keyed = steps[-1].has_key and draw(st.booleans())
    size = draw(st.sampled_from([5, 10, 20]))
    steps.append(
        draw(
            st.sampled_from(
                [
                    tumbling(size, is_keyed=is_keyed),
                    peaks(size, is_keyed=is_keyed),
                    changing_too(draw(st.sampled_from([tumbling, peaks]))(size, is_keyed=is_keyed)),
                    *([session(gap)] * steps[-1].has_key),
                ]
            )
        )
    )
    if draw(st.booleans()):
        steps.append(final(is_keyed=False))
    return replace(case, bound_ms=0), steps


def changing_too(step: Step) -> Step:
    """The same windows, which are emitted before they end, and again when a row comes late."""
    add: Callable[..., Job] = step.add
    return replace(step, add=partial(add, early_results_every="3ms", allowed_lateness="20ms"))


class Ticking(ManualClock):
    """A clock that is a millisecond later at each look."""

    def now_ms(self) -> int:
        self.time_ms += 1
        return self.time_ms


@given(changing())
@local_cases(0.02)
def test_windows_read_windows_that_change(given: tuple[Case, list[Step]]) -> None:
    case, chain = given
    for mode in MODES[:2]:
        with case_folder() as base:
            assert told(play(case, mode, chain, base, None)) == expected(case, chain), mode


#: the second record of the first window comes when the watermark is beyond all windows of its time
LATE = Case(
    events=tuple(Event("both", ms * MS, v) for ms, v in [(3, 1), (30, 2), (4, 4), (70, 8)]),
    bound_ms=0,
    flip=1,
    cuts=(2, 3),
    parallelism=1,
    slices=1,
    sort_memory="64MB",
    restores={},
)


def test_a_window_waits_until_the_windows_before_it_change_no_more(tmp_path: Path) -> None:
    chain = [changed_late(), tumbling(10)]
    for mode in MODES[:2]:
        assert told(play(LATE, mode, chain, tmp_path / mode, None)) == expected(LATE, chain), mode


def changed_late() -> Step:
    """Windows that late records change."""
    return replace(tumbling(5), add=partial(windowed, is_keyed=True, tumbling="5ms", allowed_lateness="30ms"))


class Old(KeyedProcessFunction):
    """Emits each record as one of an hour before, so that it is late for the next window, unless it comes first."""

    def process_element(self, record: Any, context: Any) -> Row:
        return {"k": record["k"], "v": record["v"], "n": 1, "at": context.timestamp - 3_600_000 * MS}


def test_rows_of_a_function_may_be_late_for_the_next_window(tmp_path: Path) -> None:
    steps = Step(
        lambda job: (
            job.key_by("k")
            .process(Old, output="k string, v bigint, n bigint, at timestamp", event_time="at")
            .key_by("k")
            .window(tumbling="10ms", late=Sink.parquet(tmp_path / "late"))
            .aggregate(v="sum(v)", n="sum(n)")
        ),
        list,
    )
    case = replace(ON_SPARK, cuts=(), restores={})
    play(case, "mixed", [steps], tmp_path / "run", None)
    late = [row["v"] for row in output_rows(tmp_path / "late")]
    assert sorted(late) == sorted(event.v for event in case.events[case.flip :] if event.v is not None)
    told = [(manifest.records_in, manifest.records_late) for manifest in manifests(tmp_path / "run" / "checkpoints")]
    assert told == [(4, 0), (6, 6), (0, 0)], "the backlog, an epoch with the rest, the end of the input"


def without_key() -> Step:
    """SQL that leaves out the key of windows, so that rows may be equal."""

    def apply(rows: Sequence[Row]) -> list[Row]:
        return [{"v": row["v"], "n": row["n"]} for row in rows]

    return Step(lambda job: job.sql("SELECT v, n FROM previous"), apply)


@dataclass(frozen=True)
class Between:
    """SQL between two steps: every value is doubled, and keys that begin with o are left out."""

    sql: str = (
        "SELECT window_start, window_end, window_time, who AS k, v + v AS v, n FROM "
        "(SELECT *, k AS who FROM previous) WHERE k NOT LIKE 'o%'"
    )

    def apply(self, rows: Sequence[Row]) -> list[Row]:
        return [row | {"v": None if row["v"] is None else 2 * row["v"]} for row in rows if not row["k"].startswith("o")]

    @property
    def step(self) -> Step:
        return Step(lambda job: job.sql(self.sql), self.apply)


ON_SPARK = Case(
    events=tuple(
        Event(key, ms * MS, v)
        for ms, key, v in [
            (3, "both", 1),
            (1, "old", 2),
            (14, "both", None),
            (11, "b", 4),
            (22, "b", 5),
            (19, "both", 6),
            (31, "new", 7),
            (29, "both", 8),
            (47, "b", 9),
            (66, "both", 10),
        ]
    ),
    bound_ms=5,
    flip=4,
    cuts=(7,),
    parallelism=2,
    slices=1,
    sort_memory="64MB",
    restores={},
)


@pytest.mark.parametrize("mode", ["mixed", pytest.param("batch", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "chain",
    [
        [tumbling(10), Between().step, final(is_keyed=False)],
        [session(8), Between().step, tumbling(20), by_key()],
        pytest.param([function(), tumbling(10), session(15)], marks=pytest.mark.soak),  # no sql, so local cases have it
        pytest.param([tumbling(10), best(), tumbling(30)], marks=pytest.mark.soak),
        [by_word()],
        [tumbling(10), by_word()],
        [tumbling(10), without_key()],
        [changed_late(), Between().step, final(is_keyed=True), peaks(20), session(8)],
    ],
    ids=[
        "window, sql, windows together",
        "session, sql, window, aggregate",
        "function, window, session",
        "window, best of each, window",
        "computed key, renamed",
        "window, computed key, renamed",
        "window, without its key",
        "window with late changes, sql, windows together, windows that keep rows",
    ],
)
def test_spark_agrees_also_with_sql_between(chain: list[Step], mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    assert told(play(ON_SPARK, mode, chain, tmp_path, spark)) == expected(ON_SPARK, chain)


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_agrees_in_the_other_modes(mode: Mode, spark: SparkSession, tmp_path: Path) -> None:
    chain = [tumbling(10), Between().step, final(is_keyed=False)]
    assert told(play(ON_SPARK, mode, chain, tmp_path, spark)) == expected(ON_SPARK, chain)


def test_the_case_on_spark_has_a_window_on_both_sides_of_the_flip_and_results_of_every_step() -> None:
    numbers = [event.time_us // (10 * MS) for event in ON_SPARK.events]
    assert set(numbers[: ON_SPARK.flip]) & set(numbers[ON_SPARK.flip :])
    for chain in ([tumbling(10)], [session(8)], [function()]):
        assert len(expected(ON_SPARK, chain)) > 3


def refused() -> Iterator[tuple[str, Callable[[Job], Job], str]]:
    window = {"tumbling": "10ms"}
    late = {"tumbling": "10ms", "allowed_lateness": "5ms"}
    yield (
        "an aggregate that changes",
        lambda job: windowed(job.key_by("k").aggregate(v="sum(v)", n="sum(n)"), is_keyed=True, **window),
        r"steps\[1\]\['window'\] cannot read the rows of the aggregate in steps\[0\], which change and have no event",
    )
    yield (
        "a function over windows with late changes",
        lambda job: function().add(windowed(job, is_keyed=True, **late)),
        r"cannot read the rows of steps\[0\], which change: with `allowed-lateness`",
    )
    yield (
        "a function without event time",
        lambda job: windowed(
            job.key_by("k").process(Doubled, output="k string, v bigint, n bigint, at timestamp"),
            is_keyed=True,
            **window,
        ),
        r"the rows of the function before it have none. Add `event-time` to steps\[0\]",
    )


@pytest.mark.parametrize(("what", "steps", "message"), list(refused()))
def test_a_window_that_cannot_read_the_rows_before_it_is_refused(
    what: str, steps: Callable[[Job], Job], message: str, tmp_path: Path
) -> None:
    source = Source.parquet("in", schema="k string, v bigint, n bigint, t timestamp", event_time="t")
    job = steps(Job("refused", sources={"t": source}, mode="batch"))
    with pytest.raises(InvalidJobError, match=message):
        job.write(Sink.parquet(tmp_path / what)).spec  # noqa: B018


def test_a_refusal_of_the_analysis_names_the_step_whose_rows_change() -> None:
    source = Source.parquet("in", schema="k string, v bigint, n bigint, t timestamp", event_time="t")
    job = final(is_keyed=True).add(changed_late().add(Job("refused", sources={"t": source}, mode="batch")))
    for step in (
        function(),
        replace(tumbling(5), add=lambda job: job.key_by("k").window(count=2).aggregate(v="sum(v)")),
    ):
        refused = step.add(job).write(Sink.console())
        with pytest.raises(
            InvalidJobError, match=r"a step before this one emits results that .* changing=aggregate-2$"
        ):
            local_plan(refused.spec, refused.where)
