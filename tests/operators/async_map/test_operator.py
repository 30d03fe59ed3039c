"""The rows of an async-map step: which requests are sent, what is remembered, and what becomes of failures."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict
from typing_extensions import override

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.keys import KeyGroupRange
from mixedmode.operators.async_map import ASYNC_MAP_FUNCTION, AsyncMapFunction, AsyncMapOperator, RefusedRequestError
from mixedmode.operators.async_map.loop import EventLoop
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.interface import AppendedRows, Batch, SubtaskContext
from mixedmode.sort import sort_table
from mixedmode.state.memory import MemoryBackend
from mixedmode.testing import OperatorHarness
from mixedmode.time import EpochTime
from tests.operators.async_map.services import CALLS, INSTANT, Service, operator_of
from tests.random_cases import random_cases

DAY_MS = 86_400_000


def harness_of(operator: AsyncMapOperator, **given: Any) -> OperatorHarness:
    return OperatorHarness(
        operator, key_by="k", schema="k string, v bigint, t timestamp", arguments=["v", "t"], event_time="t", **given
    )


def rows(*keys: str | None) -> list[dict[str, Any]]:
    return [{"k": key, "v": number, "t": number} for number, key in enumerate(keys)]


def answers(harness: OperatorHarness) -> list[tuple[Any, ...]]:
    rows = harness.take()
    return sorted(((row["k"], row["v"], row["upper"], row["nth"]) for row in rows), key=lambda row: row[1])


def test_rows_with_one_request_get_the_answer_to_one_call() -> None:
    book = Service.new_book()
    harness = harness_of(operator_of(book))
    harness.feed(rows("a", "b", "a", None, "a"))
    assert answers(harness) == [
        ("a", 0, "A", 1),
        ("b", 1, "B", 1),
        ("a", 2, "A", 1),
        (None, 3, None, 1),
        ("a", 4, "A", 1),
    ]
    assert Service.books[book].sent == {"a": 1, "b": 1, None: 1}


def test_without_remember_an_epoch_asks_again() -> None:
    book = Service.new_book()
    harness = harness_of(operator_of(book))
    for nth in (1, 2):
        harness.feed(rows("a"))
        assert answers(harness) == [("a", 0, "A", nth)]
    assert len(Service.books[book].idempotency_keys["a"]) == 1
    assert harness.state_entries == 0


def test_a_remembered_answer_counts_until_the_clock_has_reached_its_end() -> None:
    book = Service.new_book()
    harness = harness_of(operator_of(book, remember_ms=1000), clock=0)
    harness.feed(rows("a"))
    harness.feed(rows("a"), after="999ms")
    assert [nth for *_, nth in answers(harness)] == [1, 1]
    assert harness.state_entries == 2, "the answer, and when it ends"
    harness.feed(rows("a"), after="1ms")
    assert [nth for *_, nth in answers(harness)] == [2], "asked again, and remembered anew"
    harness.advance_clock("999ms")
    assert harness.state_entries == 2
    harness.advance_clock("1ms")
    assert harness.state_entries == 0, "forgotten without a row"
    assert Service.books[book].sent == {"a": 2}


def test_an_answer_of_the_backlog_is_remembered_live_and_elsewhere() -> None:
    book = Service.new_book()
    harness = harness_of(operator_of(book, remember_ms=DAY_MS), backlog=True, parallelism=2)
    harness.feed(rows(*"abc"))
    harness.flip()
    harness = harness.restore(harness.snapshot(), parallelism=4)
    harness.feed(rows(*"abcd"))
    assert {(k, nth) for k, _, _, nth in answers(harness)} == {(k, 1) for k in "abcd"}
    assert Service.books[book].sent == dict.fromkeys("abcd", 1)


def test_a_failure_is_not_remembered_and_an_ended_answer_that_cannot_be_renewed_is_deleted() -> None:
    book = Service.new_book(fails=lambda _k, sent: RefusedRequestError("no") if sent == 2 else None)
    harness = harness_of(operator_of(book, remember_ms=1000, on_error="skip"))
    harness.feed(rows("a"))
    harness.feed(rows("a"), after="1s")
    assert (harness.state_entries, harness.records_skipped) == (0, 1)
    harness.feed(rows("a"))
    assert [nth for *_, nth in answers(harness)] == [1, 2]


def test_a_class_is_opened_only_if_there_is_something_to_ask_and_always_closed() -> None:
    book = Service.new_book()
    harness = harness_of(operator_of(book, remember_ms=DAY_MS))
    harness.feed([])
    assert (Service.books[book].opened, Service.books[book].closed) == (0, 0)
    harness.feed(rows("a"))
    harness.feed(rows("a"))
    assert (Service.books[book].opened, Service.books[book].closed) == (1, 1), "the second epoch asks nothing"


def test_failed_requests_are_named_and_nothing_is_emitted() -> None:
    book = Service.new_book(fails=lambda k, _sent: ValueError(f"cannot read {k}") if k == "b" else None)
    harness = harness_of(operator_of(book))
    with pytest.raises(InvalidJobError) as caught:
        harness.feed(rows(*"abc"))
    (key,) = Service.books[book].idempotency_keys["b"]
    assert str(caught.value) == (
        "a call of the service failed: ValueError: cannot read b. Nothing of this epoch is committed, and its requests "
        "are sent again with the same keys. Correct the cause, or set the step's `on-error` to skip or dead-letter, "
        f'and start again. operator=asked, request={{"k": "b"}}, idempotency_key={key}, requests_failed=1, '
        "class=tests.operators.async_map.services:Service, method=call"
    )
    assert Service.books[book].closed == 1
    assert harness.take() == []


def test_a_service_that_is_away_is_an_error_to_start_again_after() -> None:
    book = Service.new_book(fails=lambda _k, _sent: ConnectionRefusedError("nobody listens"))
    with pytest.raises(RetryableError, match="Make the service available"):
        harness_of(operator_of(book)).feed(rows("a"))
    assert Service.books[book].sent == {"a": 4}


def test_rows_of_a_failed_request_are_dead_letters() -> None:
    book = Service.new_book(fails=lambda k, _sent: RefusedRequestError("unknown") if k == "b" else None)
    harness = harness_of(operator_of(book, on_error="dead-letter"))
    harness.feed(rows(*"abb"))
    assert [row["k"] for row in harness.take()] == ["a"]
    assert harness.side("dead-letter") == [
        {
            "operator": "asked",
            "key": '"b"',
            "record": f'{{"k": "b", "v": {v}, "t": "1970-01-01 00:00:00.00000{v}+00:00"}}',
            "error": "a call of the service failed: RefusedRequestError: unknown",
            "time": harness_time(v),
        }
        for v in (1, 2)
    ]


def harness_time(us: int) -> Any:
    return pa.array([us], INSTANT)[0].as_py()


class Unfit(AsyncMapFunction):
    """Returns other columns than declared for the key b."""

    async def call(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"upper": 1 if request["k"] == "b" else "A", "nth": 0} for request in requests]


def test_an_answer_that_does_not_match_the_output_is_a_failure_of_its_request_alone() -> None:
    operator = replace(operator_of(0, on_error="dead-letter"), function=GivenClass(ASYNC_MAP_FUNCTION, Unfit))
    harness = harness_of(operator)
    harness.feed(rows(*"abc"))
    assert [row["k"] for row in harness.take()] == ["a", "c"]
    (letter,) = harness.side("dead-letter")
    assert letter["error"].startswith(
        "an answer does not match the step's output: the field `upper` is declared string"
    )


def test_as_many_threads_run_as_calls() -> None:
    all_at_once, loop = Barrier(40), EventLoop(40)

    async def calls() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(all_at_once.wait, 20) for _ in range(40)))

    places = loop.run(calls())
    loop.close()
    assert sorted(places) == list(range(40)), "all of them waited at once"


class InTasks(AsyncMapFunction):
    """Sends each request in a task of its own; the service is away."""

    async def call(self, requests: Sequence[Any]) -> list[Any]:
        async with asyncio.TaskGroup() as tasks:
            for _ in requests:
                tasks.create_task(self.send())
        return []

    async def send(self) -> None:
        raise ConnectionRefusedError


def test_a_group_of_errors_is_of_the_kind_of_its_first_one_which_is_told() -> None:
    operator = replace(operator_of(0), function=GivenClass(ASYNC_MAP_FUNCTION, InTasks))
    with pytest.raises(RetryableError) as caught:
        harness_of(operator).feed(rows("a"))
    assert "(1 sub-exception), first ConnectionRefusedError. " in str(caught.value)
    assert "test_operator.py:" in str(caught.value)
    assert " in send" in str(caught.value)


class UnreadableError(Exception):
    """An error without a text."""

    @override
    def __str__(self) -> str:
        raise AttributeError


@pytest.mark.parametrize("error", [UnreadableError(), ValueError("half a pair: \ud83d")])
def test_the_text_of_an_error_cannot_end_an_epoch(error: Exception) -> None:
    book = Service.new_book(fails=lambda _k, _sent: error)
    harness = harness_of(operator_of(book, on_error="dead-letter"))
    harness.feed(rows("a"))
    (letter,) = harness.side("dead-letter")
    assert "__str__ raised AttributeError" in letter["error"] or letter["error"].endswith(r"half a pair: \ud83d")


class WithoutClient(Unfit):
    closed = 0

    async def open(self, context: Any) -> None:
        msg = "certificate"
        raise FileNotFoundError(msg)

    async def close(self) -> None:
        WithoutClient.closed += 1


def test_a_class_that_cannot_be_opened_is_closed_and_named_with_its_line() -> None:
    operator = replace(operator_of(0, on_error="skip"), function=GivenClass(ASYNC_MAP_FUNCTION, WithoutClient))
    with pytest.raises(RetryableError) as caught:
        harness_of(operator).feed(rows("a"))
    assert "raised FileNotFoundError: certificate in `open`, which is called with no request" in str(caught.value)
    assert "test_operator.py:" in str(caught.value)
    assert WithoutClient.closed == 1


# --- tables that are cut anywhere -------------------------------------------------------------------------------------


def sorted_input(operator: AsyncMapOperator, keys: Sequence[str]) -> pa.Table:
    times = np.arange(len(keys), dtype=np.int64)
    columns = [pa.array(times), pa.array(times, INSTANT)]
    batch = Batch([pa.array(keys, pa.string())], columns, times, None)
    return sort_table(operator.fold(batch, late_us=0, max_parallelism=4).table)


def cut(table: pa.Table, places: Sequence[int]) -> Iterator[pa.Table]:
    bounds = [0, *sorted({place % (table.num_rows + 1) for place in places}), table.num_rows]
    for start, end in pairwise(bounds):
        if end > start:
            yield table.slice(start, end - start).combine_chunks()


@settings(max_examples=random_cases(15), deadline=None)
@given(
    keys=st.lists(st.sampled_from("abcde"), max_size=20),
    places=st.lists(st.integers(0, 20), max_size=4),
    remember_ms=st.sampled_from([None, DAY_MS]),
    ended=st.sets(st.sampled_from("abcdef")),
)
def test_a_key_that_is_cut_is_asked_for_once(
    keys: list[str], places: list[int], remember_ms: int | None, ended: set[str]
) -> None:
    book = Service.new_book(fails=lambda k, _sent: RefusedRequestError("no") if k == "e" else None)
    operator = operator_of(book, remember_ms=remember_ms, on_error="skip")
    entries = SortedDict()
    backend = MemoryBackend(entries)
    if remember_ms is not None and ended:  # answers that end before the epoch
        time = EpochTime(0, 0, clock_ms=0, clock_before_ms=None, is_backlog=False, was_backlog=None)
        context = SubtaskContext(backend, time, KeyGroupRange(0, 4), 0)
        list(operator.process(iter([sorted_input(operator, sorted(ended))]), context))
        backend.commit()
        Service.books[book].sent.clear()
    time = EpochTime(0, 0, clock_ms=DAY_MS, clock_before_ms=0, is_backlog=False, was_backlog=False)
    context = SubtaskContext(backend, time, KeyGroupRange(0, 4), 1)
    due = list(operator.due(context))
    table = sort_table(pa.concat_tables([sorted_input(operator, keys), *due]))
    found = list(operator.process(cut(table, places), context))
    emitted = [row for one in found if isinstance(one, AppendedRows) for row in one.rows.to_pylist()]
    assert Counter((row["k"], row["v"]) for row in emitted) == Counter(
        (key, number) for number, key in enumerate(keys) if key != "e"
    )
    assert Service.books[book].sent == Counter(set(keys)), "a request that was refused is not sent again either"
    backend.commit()
    stored = 0 if remember_ms is None else 2 * len(set(keys) - {"e"})
    assert len(entries) == stored, "what ended is deleted, and what is new has its end"


class Long(AsyncMapFunction):
    """Answers with a text of a megabyte."""

    async def call(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"upper": "x" * 2**20, "nth": 0} for _ in requests]


def test_a_long_answer_to_a_key_with_many_rows_is_emitted_in_pieces() -> None:
    """Together, the answers of these rows have more bytes than a column of Arrow can hold."""
    operator = replace(operator_of(0), function=GivenClass(ASYNC_MAP_FUNCTION, Long))
    time = EpochTime(0, 0, clock_ms=0, clock_before_ms=None, is_backlog=True, was_backlog=None)
    context = SubtaskContext(MemoryBackend(SortedDict()), time, KeyGroupRange(0, 4), 0)
    found = [
        (one.rows.num_rows, one.rows.nbytes)
        for one in operator.process(iter([sorted_input(operator, ["a"] * 2100)]), context)
        if isinstance(one, AppendedRows)
    ]
    assert sum(rows for rows, _ in found) == 2100
    assert max(size for _, size in found) < 2**26 + 2**21


def test_blocks_bound_how_many_answers_are_held() -> None:
    book = Service.new_book()
    operator = operator_of(book, calls=replace(CALLS, batch_size=50))
    time = EpochTime(0, 0, clock_ms=0, clock_before_ms=None, is_backlog=True, was_backlog=None)
    context = SubtaskContext(MemoryBackend(SortedDict()), time, KeyGroupRange(0, 4), 0)
    keys = [str(number) for number in range(10_000)]
    found = list(operator.process(iter([sorted_input(operator, keys)]), context))
    assert [one.rows.num_rows for one in found if isinstance(one, AppendedRows)] == [4096, 4096, 1808]
