"""Over steps: mixed == streaming == batch == plain Python, mostly without Spark.

Whatever the flip, the epochs, the parallelism and the restarts are, the columns are those of the records alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.config.over_calls import OverCall
from mixedmode.job import Job
from tests.differential.stories import case_folder, local_cases
from tests.differential.test_time_on_spark import play_steps
from tests.differential.timelines import MODES, MS, Case, Event, Mode, cases, microseconds
from tests.harness import SPARK_CASES, manifests, output_rows
from tests.operators.oracle import order_of
from tests.operators.over.oracle import computed

Row = Mapping[str, Any]
CALLS = [
    *("row_number()", "rank()", "dense_rank()", "lag(v)", "lag(k, 2)", "count(*)", "count(v)"),
    *("sum(v)", "avg(v)", "min(v)", "max(v)", "first_value(v)", "last_value(v)"),
    *("sum(v) rows between 2 preceding and current row", "avg(v) rows between unbounded preceding and 1 preceding"),
    *("max(v) rows between 3 preceding and 1 preceding", "last_value(v) ignore nulls rows 2 preceding"),
    *("first_value(v) ignore nulls", "count(*) rows 4 preceding"),
]
SPANS = [
    f"{call} range {span}ms preceding" for call in ("sum(v)", "count(*)", "max(v)", "avg(v)") for span in (1, 7, 50)
]
VALUES = st.none() | st.integers(0, 3)  # few, so that there are peers
COLUMNS = st.lists(st.sampled_from(CALLS), min_size=1, max_size=4).map(
    lambda texts: {f"c{number}": text for number, text in enumerate(texts)}
)
WINDOW_MS = 20


def rows_of(events: Sequence[Event]) -> list[Row]:
    """The records as the job reads them, with the time as microseconds."""
    return [{**event.row, "is_big": None if event.v is None else event.v > 50} for event in events]


def values_of(events: Sequence[Event], columns: Mapping[str, str], key: Sequence[str], *, ties: bool) -> list[Row]:
    """The rows of an over step in plain Python."""

    def order(row: Row) -> tuple[Any, ...]:
        return row["t"], *((order_of(row["v"]),) if ties else ())

    return computed(rows_of(events), {name: OverCall.parse(text) for name, text in columns.items()}, key, order)


def told(rows: Sequence[Row]) -> Counter[str]:
    """Rows as values that can be compared, in any order."""
    plain = [
        {name: microseconds(value) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]
    return Counter(repr(sorted((name, value) for name, value in row.items() if name not in META)) for row in plain)


META = {"_op", "_epoch"}


def adding(columns: Mapping[str, str], key: Sequence[str], *, ties: bool) -> Callable[[Job], Job]:
    tie_break = "v" if ties else None
    if key:
        return lambda job: job.key_by(*key).over(columns, tie_break=tie_break)
    return lambda job: job.over(columns, tie_break=tie_break)


@local_cases(0.1)
@given(
    case=cases(values=VALUES),
    columns=COLUMNS,
    key=st.sampled_from([["k"], ["k"], []]),
    ties=st.booleans(),
    mode=st.sampled_from(MODES),
)
def test_a_row_has_the_values_of_the_rows_before_it_however_they_arrive(
    case: Case, columns: Mapping[str, str], key: list[str], ties: bool, mode: Mode
) -> None:
    with case_folder() as base:
        check(case, columns, key, mode, None, base, ties=ties)


@local_cases(0.04)
@given(
    case=cases(values=VALUES),
    columns=st.lists(st.sampled_from(SPANS), min_size=1, max_size=3, unique=True),
    mode=st.sampled_from(MODES),
)
def test_a_row_has_the_values_of_the_span_before_it_however_rows_arrive(
    case: Case, columns: Sequence[str], mode: Mode
) -> None:
    named = {**{f"c{number}": text for number, text in enumerate(columns)}, "before": "lag(v, 2)"}
    with case_folder() as base:
        check(case, named, ["k"], mode, None, base, ties=False)


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(case=cases(values=VALUES), columns=st.just(dict(zip("abcdefg", CALLS[::3], strict=True))))
@pytest.mark.parametrize("key", [["k"], []])
def test_a_row_has_the_values_of_the_rows_before_it_on_spark(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    columns: Mapping[str, str],
    key: list[str],
) -> None:
    check(case, columns, key, "mixed", spark, tmp_path_factory.mktemp("mixed"), ties=True)


def check(
    case: Case,
    columns: Mapping[str, str],
    key: Sequence[str],
    mode: Mode,
    spark: SparkSession | None,
    base: Path,
    *,
    ties: bool,
) -> None:
    """Run a job with files, epochs and manifests; in mixed mode with another parallelism at the end."""
    play_steps(case, mode, adding(columns, key, ties=ties), spark, base)
    assert told(output_rows(base / "out")) == told(values_of(case.events, columns, key, ties=ties)), mode
    if mode != "batch":
        assert sum(manifest.records_late for manifest in manifests(base / "checkpoints")) == 0


@local_cases(0.04)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES))
def test_a_window_after_it_has_the_event_time_of_its_rows(case: Case, mode: Mode) -> None:
    columns = {"before": "lag(v)", "n": "row_number()"}

    def steps(job: Job) -> Job:
        changes = job.key_by("k").over(columns, tie_break="v")
        return changes.window(tumbling=f"{WINDOW_MS}ms").aggregate(before="sum(before)", n="max(n)")

    windows = defaultdict[int, list[Row]](list)
    for row in values_of(case.events, columns, ["k"], ties=True):
        windows[row["t"] // (WINDOW_MS * MS) * WINDOW_MS * MS].append(row)
    expected = []
    for start, rows in windows.items():
        seen = [row["before"] for row in rows if row["before"] is not None]
        bounds = {"window_start": start, "window_end": start + WINDOW_MS * MS}
        expected.append({**bounds, "before": sum(seen) if seen else None, "n": max(row["n"] for row in rows)})
    with case_folder() as base:
        play_steps(case, mode, steps, None, base)
        assert told(output_rows(base / "out")) == told(expected), mode


@local_cases(0.04)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES))
def test_windows_are_compared_with_those_before_them(case: Case, mode: Mode) -> None:
    def steps(job: Job) -> Job:
        windows = job.key_by("k").window(tumbling=f"{WINDOW_MS}ms").aggregate(n="count(*)")
        return windows.key_by("k").over(before="lag(n)", so_far="sum(n)")

    counts = Counter((event.key, event.time_us // (WINDOW_MS * MS) * WINDOW_MS * MS) for event in case.events)
    windows = [
        {"k": k, "window_start": start, "window_end": start + WINDOW_MS * MS, "n": n, "window_time": None}
        for (k, start), n in counts.items()
    ]
    calls = {"before": OverCall.parse("lag(n)"), "so_far": OverCall.parse("sum(n)")}
    expected = computed(windows, calls, ["k"], lambda row: row["window_end"])
    with case_folder() as base:
        play_steps(case, mode, steps, None, base)
        found = [{**row, "window_time": None} for row in output_rows(base / "out")]
        assert told(found) == told(expected), mode


@local_cases(0.03)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES))
def test_an_over_step_after_an_over_step_reads_its_columns(case: Case, mode: Mode) -> None:
    def steps(job: Job) -> Job:
        return job.key_by("k").over(n="count(*)", tie_break="v").over(m="sum(n)", tie_break=["v", "k"])

    calls = {"n": OverCall.parse("count(*)")}, {"m": OverCall.parse("sum(n)")}
    first = computed(rows_of(case.events), calls[0], ["k"], lambda row: (row["t"], order_of(row["v"])))
    second = computed(first, calls[1], [], lambda row: (row["t"], order_of(row["v"]), order_of(row["k"])))
    with case_folder() as base:
        play_steps(case, mode, steps, None, base)
        assert told(output_rows(base / "out")) == told(second), mode


@pytest.mark.soak  # it looks at the cases only
def test_the_cases_have_keys_with_peers_on_both_sides_of_the_flip() -> None:
    def is_telling(case: Case) -> bool:
        sides = [Counter((event.key, event.time_us) for event in events) for events in halves(case)]
        return any(max(side.values(), default=0) > 1 for side in sides) and bool(sides[0].keys() & sides[1].keys())

    found = find(
        cases(values=VALUES), is_telling, settings=settings(SPARK_CASES, max_examples=5000, phases=[Phase.generate])
    )
    assert is_telling(found)


def halves(case: Case) -> tuple[Sequence[Event], Sequence[Event]]:
    return case.events[: case.flip], case.events[case.flip :]
