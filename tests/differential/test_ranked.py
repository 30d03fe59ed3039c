"""Top and deduplicate: mixed == streaming == batch == plain Python, mostly without Spark.

Whatever the flip, the epochs, the parallelism and the restores are, the answer is that of the records alone.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job
from mixedmode.keys import KeySchema
from mixedmode.operators.deduplicate import DeduplicateOperator
from mixedmode.operators.interface import KeyedOperator
from mixedmode.operators.top import OrderColumn, RowLayout, TopOperator
from mixedmode.testing import OperatorHarness
from tests.differential.stories import local_cases
from tests.differential.test_time_on_spark import play_steps
from tests.differential.timelines import MODES, MS, SCHEMA, Case, Event, Mode, cases, flat, microseconds, play
from tests.harness import SPARK_CASES, manifests, output_rows
from tests.operators.ordered import By, in_order

INSTANT = pa.timestamp("us", "UTC")
KEYS = KeySchema((pa.field("k", pa.string()),))
VALUES = st.none() | st.integers(0, 3)  # few, so that there are ties
V = OrderColumn(pa.int64(), descending=False, nulls_first=True)


def layout_of(*order: OrderColumn) -> RowLayout:
    return RowLayout(KEYS, order, (pa.field("v", pa.int64()), pa.field("t", INSTANT)))


def harness_of(operator: KeyedOperator) -> Any:
    return partial(OperatorHarness, operator, key_by="k", schema=SCHEMA, arguments=["v", "t"], event_time="t")


def by_key(events: Sequence[Event]) -> dict[str, list[tuple[int | None, int]]]:
    """{key: its rows, (v, t)}."""
    found: dict[str, list[tuple[int | None, int]]] = {}
    for event in events:
        found.setdefault(event.key, []).append((event.v, event.time_us))
    return found


@given(case=cases(values=VALUES), n=st.integers(1, 3), descending=st.booleans(), nulls_first=st.booleans())
@local_cases(0.08)
def test_the_best_rows_are_the_same_however_they_arrive(
    case: Case, n: int, descending: bool, nulls_first: bool
) -> None:
    by: list[By] = [(0, descending, nulls_first)]
    operator = TopOperator(layout_of(OrderColumn(pa.int64(), descending, nulls_first)), (0,), n, is_changelog=False)

    def best(events: Sequence[Event]) -> list[Any]:
        ordered = {key: in_order(rows, by)[:n] for key, rows in by_key(events).items()}
        return sorted((key, rank, *row) for key, rows in ordered.items() for rank, row in enumerate(rows, 1))

    for mode in MODES:
        outcome = play(case, mode, harness_of(operator))
        assert sorted(flat(outcome.table), key=lambda row: row[:2]) == best(case.events), mode
        if outcome.at_flip is not None:
            assert sorted(flat(outcome.at_flip), key=lambda row: row[:2]) == best(case.events[: case.flip])


def first_of(events: Sequence[Event], within_us: int | None) -> Counter[Any]:
    """The rows that `keep: first` emits: each row that is not within reach of the one emitted before it."""
    found = Counter[Any]()
    for key, rows in by_key(events).items():
        last: int | None = None
        for v, time in in_order(rows, [(1, False, True), (0, False, True)]):
            if last is None or (within_us is not None and time >= last + within_us):
                found[key, v, time] += 1
                last = time
    return found


@given(case=cases(values=VALUES), within_ms=st.none() | st.sampled_from([1, 5, 20]))
@local_cases(0.12)
def test_the_first_row_of_each_key_is_the_same_however_rows_arrive(case: Case, within_ms: int | None) -> None:
    within_us = None if within_ms is None else within_ms * MS
    time = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    operator = DeduplicateOperator(layout_of(time, V), (0,), waits=True, within_us=within_us, has_event_time=True)
    expected = first_of(case.events, within_us)
    for mode in MODES:
        outcome = play(case, mode, harness_of(operator))
        assert Counter(flat(outcome.rows)) == expected, mode
        assert outcome.late == 0, f"{mode}: nothing is late that is within the bound"
        if outcome.at_flip is not None:
            history = case.events[: case.flip]
            watermark_us = max((event.time_us - case.bound_ms * MS for event in history), default=0)
            passed = [event for event in history if event.time_us < watermark_us]
            assert Counter(flat(outcome.at_flip)) == first_of(passed, within_us), "what the watermark has passed"
        if within_us is not None:
            assert outcome.kept == 0, f"{mode}: all keys are forgotten when the input has ended"
        else:
            assert outcome.kept == (0 if mode == "batch" else len(by_key(case.events))), f"{mode}: no row waits"


@given(case=cases(values=VALUES))
@local_cases(0.08)
def test_any_row_of_each_key_is_one_row_of_each_key(case: Case) -> None:
    time = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    operators = {
        "by time": DeduplicateOperator(layout_of(time), (), waits=False, within_us=None, has_event_time=True),
        "without time": DeduplicateOperator(layout_of(), (), waits=False, within_us=None, has_event_time=False),
    }
    rows = by_key(case.events)
    for name, operator in operators.items():
        for mode in MODES:
            found = list(flat(play(case, mode, harness_of(operator)).rows))
            assert Counter(row[0] for row in found) == dict.fromkeys(rows, 1), (name, mode)
            assert all(row[1:] in rows[row[0]] for row in found), (name, mode)


@given(case=cases(values=VALUES), within_ms=st.sampled_from([1, 5, 20]))
@local_cases(0.12)
def test_any_row_within_a_time_is_never_near_another_one_and_covers_every_row(case: Case, within_ms: int) -> None:
    time = OrderColumn(pa.int64(), descending=False, nulls_first=True)
    within_us = within_ms * MS
    operator = DeduplicateOperator(layout_of(time), (), waits=False, within_us=within_us, has_event_time=True)
    rows = by_key(case.events)
    for mode in MODES:
        outcome = play(case, mode, harness_of(operator))
        emitted: dict[str, list[int]] = {key: [] for key in rows}
        for key, v, time_us in flat(outcome.rows):
            assert (v, time_us) in rows[key]
            near = [other for other in emitted[key] if time_us < other + within_us]
            assert not near, f"{mode}: a row is emitted only if it is this long after the emitted ones"
            emitted[key].append(time_us)
        for key, own in rows.items():
            for _, time_us in own:
                assert any(time_us < other + within_us for other in emitted[key]), (
                    f"{mode}: every row has its duplicate"
                )
        assert outcome.kept == 0, f"{mode}: all keys are forgotten when the input has ended"


@local_cases(0.05)
@given(case=cases(values=VALUES), mode=st.sampled_from(MODES), within_ms=st.none() | st.sampled_from([5, 20]))
def test_a_job_emits_the_first_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, case: Case, mode: Mode, within_ms: int | None
) -> None:
    check_first(case, mode, within_ms, None, tmp_path_factory.mktemp(mode))


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(case=cases(values=VALUES), within_ms=st.just(5))
def test_a_job_emits_the_first_row_of_each_key_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case, within_ms: int
) -> None:
    check_first(case, "mixed", within_ms, spark, tmp_path_factory.mktemp("mixed"))


def check_first(case: Case, mode: Mode, within_ms: int | None, spark: SparkSession | None, base: Path) -> None:
    """Run a job with files, epochs and manifests; in mixed mode with another parallelism at the end."""
    within = None if within_ms is None else f"{within_ms}ms"

    def steps(job: Job) -> Job:
        return job.key_by("k").deduplicate(keep="first", tie_break="v", within=within)

    play_steps(case, mode, steps, spark, base)
    found = Counter((row["k"], row["v"], microseconds(row["t"])) for row in output_rows(base / "out"))
    assert found == first_of(case.events, None if within_ms is None else within_ms * MS), mode
    if mode != "batch":
        assert sum(manifest.records_late for manifest in manifests(base / "checkpoints")) == 0


@pytest.mark.soak  # it looks at the cases only, and takes as long as the tests that have them
def test_the_cases_have_keys_whose_first_row_waits_at_the_flip_and_is_overtaken() -> None:
    def is_telling(case: Case) -> bool:
        before, after = first_of(case.events[: case.flip], None), first_of(case.events, None)
        return bool(before - after) and bool(case.restores) and len(case.cuts) > 1

    find(cases(values=VALUES), is_telling, settings=settings(SPARK_CASES, max_examples=5000, phases=[Phase.generate]))
