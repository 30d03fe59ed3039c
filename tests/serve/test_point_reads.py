"""Point reads that are answered together: each request gets the answer that it would get alone."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.queryable.kept import KeptState
from mixedmode.serve import point_reads
from mixedmode.serve.point_reads import PointReads, answers
from mixedmode.serve.state import StateQuestion, rows_document
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import EPOCHS, counts


def two_columns(job: Any) -> Any:
    return job.key_by("v", "k").aggregate(n="count(*)")


def windows(job: Any) -> Any:
    return job.key_by("k").window(tumbling="1m", allowed_lateness="1h").aggregate(n="count(*)")


def of(*keys: str, **given: Any) -> StateQuestion:
    return StateQuestion("aggregate-1", keys, **given)


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KeptState]:
    job = RunningJob(tmp_path / "job", getattr(request, "param", counts))
    for rows in EPOCHS:
        job.epoch(rows)
    kept = KeptState(job.checkpoints)
    yield kept
    kept.close()


@pytest.mark.parametrize(
    ("state", "asked"),
    [
        (counts, [("a",), ("k7", "zz", "a", "a"), ("zz",), ("[null]",), ("c", "[null]")]),
        (two_columns, [('["1", "a"]',), ('[5, "b"]', '[1, "a"]'), ('[null, "c"]',), ('[1, "b"]',)]),
        (windows, [("a",), ("b", "a"), ("zz",), ("k1", "k2", "k1")]),
    ],
    indirect=["state"],
)
def test_each_request_of_a_batch_gets_the_rows_that_it_would_get_alone(
    state: KeptState, asked: Sequence[Sequence[str]]
) -> None:
    questions = [of(*keys) for keys in asked]
    alone = [rows_document(question.answer(state), question.keys) for question in questions]
    assert any(len(answer["rows"]) > 1 for answer in alone)
    assert any(answer["missing"] for answer in alone)
    assert answers(state, questions) == alone


def test_a_wrong_key_in_a_batch_is_an_error_of_its_own_request(state: KeptState) -> None:
    right, wrong, unknown = answers(state, [of("a"), of('["a", "b"]', "x"), of("zz")])
    assert isinstance(right, dict)
    assert right["rows"][0]["k"] == "a"
    assert isinstance(wrong, dict), "a text in brackets that is no key of one column is the key itself"
    assert isinstance(unknown, dict)
    assert (wrong["rows"], unknown["rows"]) == ([], [])
    assert (right["missing"], wrong["missing"], unknown["missing"]) == ([], ['["a", "b"]', "x"], ["zz"])
    refused = answers(state, [of("a", epoch=9), of("b", epoch=9)])
    assert all(isinstance(answer, InvalidJobError) for answer in refused)


def test_a_batch_that_is_too_large_is_read_one_by_one(state: KeptState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_reads, "PAGE_BYTES_MAX", 1)
    first, second = answers(state, [of("a"), of("b")])
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["rows"][0]["k"], second["rows"][0]["k"]) == ("a", "b")


def test_requests_that_come_during_a_batch_are_one_batch(state: KeptState, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    entered, may_end = threading.Event(), threading.Event()

    def counted(kept: KeptState, questions: Sequence[StateQuestion]) -> Any:
        batches.append(len(questions))
        entered.set()
        assert may_end.wait(10)
        return answers(kept, questions)

    monkeypatch.setattr(point_reads, "answers", counted)

    async def ask() -> list[Any]:
        reads = PointReads(state)
        first = asyncio.create_task(reads.ask(of("a")))
        await asyncio.to_thread(entered.wait, 10)
        others = [asyncio.create_task(reads.ask(of(f"k{number}"))) for number in range(50)]
        old = [asyncio.create_task(reads.ask(of("a", epoch=0))) for _ in range(3)]
        gone = asyncio.create_task(reads.ask(of("a")))
        await asyncio.sleep(0)
        assert reads.waiting == 54
        gone.cancel()
        may_end.set()
        found = await asyncio.gather(first, *others, *old)
        assert gone.cancelled()
        return list(found)

    first, *others = asyncio.run(ask())
    assert batches == [1, 51, 3], "an epoch has a batch of its own"
    assert first["rows"][0]["k"] == "a"
    assert [answer["rows"][0]["k"] for answer in others[:50]] == [f"k{number}" for number in range(50)]
    assert [answer["epoch"] for answer in others[50:]] == [0, 0, 0]


@pytest.mark.parametrize(("is_fast", "in_loop"), [(True, [False, True, True, False]), (False, [False] * 4)])
def test_a_batch_has_a_thread_unless_the_state_is_open_and_reads_are_fast(
    state: KeptState, *, is_fast: bool, in_loop: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_reads, "_SECONDS_IN_LOOP", 1e9 if is_fast else 0.0)
    threads: list[bool] = []

    def noted(kept: KeptState, questions: Sequence[StateQuestion]) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return answers(kept, questions)

    monkeypatch.setattr(point_reads, "answers", noted)

    async def ask() -> list[Any]:
        reads = PointReads(state)
        return [await reads.ask(question) for question in (of("a"), of("b"), of("a"), of("a", epoch=0))]

    found = asyncio.run(ask())
    assert [answer["rows"][0]["k"] for answer in found] == ["a", "b", "a", "a"]
    assert threads == in_loop
