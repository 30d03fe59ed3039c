"""Async maps: mixed == streaming == batch == plain Python, without Spark.

Whatever the flip, the epochs, the parallelism, the restores and the failures of calls are, each row is emitted once
with the answer to its request. A remembered answer is asked for once in all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job
from mixedmode.operators.async_map import AsyncMapOperator, RefusedRequestError
from mixedmode.testing import OperatorHarness
from tests.differential.stories import local_cases
from tests.differential.test_time_on_spark import play_steps
from tests.differential.timelines import MODES, SCHEMA, Case, Event, Mode, cases, flat, microseconds, play
from tests.harness import SPARK_CASES, output_rows
from tests.operators.async_map.services import Service, operator_of

YEAR = 365 * 86_400_000
KEYS = ("both", "b\0th", "old", "new")
RETRIES = 3
#: how often the first calls with a request fail; one more than the retries is a failure for good
failures = st.dictionaries(st.sampled_from(KEYS), st.integers(1, RETRIES), max_size=3)


def failing_first(times: Mapping[str, int], refused: str | None = None) -> Any:
    """Return how a service fails: the first calls with some keys, all calls with one."""

    def fails(key: str, sent: int) -> Exception | None:
        if key == refused:
            return RefusedRequestError("no")
        return OSError("busy") if sent <= times.get(key, 0) else None

    return fails


def harness_of(operator: AsyncMapOperator) -> Any:
    return lambda **given: OperatorHarness(
        operator, key_by="k", schema=SCHEMA, arguments=["v", "t"], event_time="t", **given
    )


def upper(events: Sequence[Event]) -> Counter[Any]:
    """The rows with their answers, in plain Python."""
    return Counter((event.key, event.v, event.time_us, event.key.upper()) for event in events)


@local_cases(0.04)
@given(case=cases(), fails=failures, remembers=st.booleans())
def test_each_row_gets_the_answer_to_its_request_once(case: Case, fails: dict[str, int], remembers: bool) -> None:
    for mode in MODES:
        number = Service.new_book(fails=failing_first(fails))
        operator = operator_of(number, remember_ms=YEAR if remembers else None)
        outcome = play(case, mode, harness_of(operator))
        assert Counter(row[:4] for row in flat(outcome.rows)) == upper(case.events), mode
        assert outcome.late == 0, "no row is late"
        book, keys = Service.books[number], {event.key for event in case.events}
        assert all(len(sent) == 1 for sent in book.idempotency_keys.values()), "also when a request is sent again"
        if remembers:
            assert book.answered == dict.fromkeys(keys, 1), mode
            assert {row[4] for row in flat(outcome.rows)} <= {1}, f"{mode}: the first answer counts"
            assert outcome.kept == (0 if mode == "batch" else 2 * len(keys))
        else:
            epochs = [case.events[: case.flip], *case.epochs(mode)] if mode == "mixed" else case.epochs(mode)
            asked = Counter(key for epoch in epochs or [case.events] for key in {event.key for event in epoch})
            assert book.answered == asked, f"{mode}: once in each epoch that has rows of it"


@local_cases(0.02)
@given(case=cases(), fails=failures, refused=st.sampled_from(KEYS), remembers=st.booleans())
def test_rows_of_a_refused_request_are_dead_letters_and_no_others(
    case: Case, fails: dict[str, int], refused: str, remembers: bool
) -> None:
    for mode in MODES:
        number = Service.new_book(fails=failing_first(fails, refused))
        operator = operator_of(number, remember_ms=YEAR if remembers else None, on_error="dead-letter")
        outcome = play(case, mode, harness_of(operator), ["dead-letter"])
        assert Counter(row[:4] for row in flat(outcome.rows)) == upper([e for e in case.events if e.key != refused])
        letters = Counter(microseconds(row["time"]) for row in outcome.sides["dead-letter"])
        assert letters == Counter(event.time_us for event in case.events if event.key == refused), mode


def test_the_cases_have_remembered_keys_at_the_flip_and_failures_after_a_restore() -> None:
    def is_telling(case: Case) -> bool:
        before, after = ({event.key for event in part} for part in (case.events[: case.flip], case.events[case.flip :]))
        return bool(before & after) and bool(after - before) and bool(case.restores)

    find(cases(), is_telling, settings=settings(max_examples=5000, phases=[Phase.generate]))


def asked_then_summed(job: Job) -> Job:
    """A step that asks, and a window over its rows: they keep their event times."""
    asked = job.key_by("k").async_map(
        "tests.differential.asked:Upper", output="upper string", batch_size=2, capacity=2, remember="30d", backoff="1ms"
    )
    return asked.key_by("upper").window(tumbling="10ms").aggregate(rows="count(*)", total="sum(v)")


def summed(events: Sequence[Event]) -> Counter[Any]:
    windows: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        windows.setdefault((event.key.upper(), event.time_us // 10_000 * 10_000), []).append(event)
    found = Counter[Any]()
    for (key, start), rows in windows.items():
        values = [row.v for row in rows if row.v is not None]
        found[key, start, len(rows), sum(values) if values else None] += 1
    return found


def check_windows(case: Case, mode: Mode, spark: SparkSession | None, base: Path) -> None:
    play_steps(case, mode, asked_then_summed, spark, base)
    found = Counter(
        (row["upper"], microseconds(row["window_start"]), row["rows"], row["total"])
        for row in output_rows(base / "out")
    )
    assert found == summed(case.events), mode


@local_cases(0.03)
@given(case=cases(), mode=st.sampled_from(MODES))
def test_windows_over_answered_rows_are_those_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, case: Case, mode: Mode
) -> None:
    check_windows(case, mode, None, tmp_path_factory.mktemp(mode))


@pytest.mark.spark
@settings(SPARK_CASES, max_examples=1)
@given(case=cases())
def test_windows_over_answered_rows_are_those_of_the_rows_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    check_windows(case, "mixed", spark, tmp_path_factory.mktemp("mixed"))


def test_a_repeat_after_a_failure_for_good_sends_the_same_keys_and_emits_each_row_once() -> None:
    """The epoch fails after some calls have succeeded: nothing of it counts, and all its requests are sent again."""
    number = Service.new_book(fails=failing_first({"c": RETRIES + 1}))
    harness = harness_of(replace(operator_of(number, remember_ms=YEAR)))(parallelism=1)
    rows = [{"k": key, "v": 1, "t": at} for at, key in enumerate("abcab")]
    with pytest.raises(Exception, match="busy"):
        harness.feed(rows)
    assert (harness.take(), harness.state_entries) == ([], 0)
    harness.feed(rows)
    assert Counter(row["k"] for row in harness.take()) == Counter("abcab")
    assert all(len(keys) == 1 for keys in Service.books[number].idempotency_keys.values())
