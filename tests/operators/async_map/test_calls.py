"""The sending of requests: batches, calls at a time, time limits, repeats. Time is virtual, so nothing waits."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import RetryableError
from mixedmode.operators.async_map import AsyncMapFunction, CallSettings, RefusedRequestError, Request
from mixedmode.operators.async_map.calls import AnswersMismatchError, Outcome, outcomes_of
from mixedmode.operators.async_map.function import idempotency_key
from tests.operators.async_map.virtual_time import run_virtually

SETTINGS = CallSettings(batch_size=2, capacity=3, timeout_ms=500, retries=3, backoff_ms=100)
Answer = Callable[[int, int], Any]


class Service(AsyncMapFunction):
    """Answers a request `n` with what `answer` says of it, after `takes` seconds; remembers all of its calls.

    answer: called with n, and how often n has been sent. `calls`: the time, and the requests, of each.
    """

    def __init__(self, answer: Answer, takes: float = 0) -> None:
        self.answer, self.takes = answer, takes
        self.calls: list[tuple[float, list[int]]] = []
        self.sent: dict[int, int] = {}
        self.at_once = self.most_at_once = 0

    async def call(self, requests: Sequence[Request]) -> list[Any]:
        self.calls.append((asyncio.get_running_loop().time(), [request["n"] for request in requests]))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes)
            return [self._one(request["n"]) for request in requests]
        finally:
            self.at_once -= 1

    def _one(self, n: int) -> Any:
        self.sent[n] = self.sent.get(n, 0) + 1
        return self.answer(n, self.sent[n])


def requests_of(count: int) -> list[Request]:
    return [Request({"n": n}, idempotency_key("step", b"%d" % n)) for n in range(count)]


def outcomes(service: AsyncMapFunction, count: int, *, is_strict: bool = False, **changes: Any) -> list[Outcome | None]:
    settings = replace(SETTINGS, **changes)
    return run_virtually(outcomes_of(service, requests_of(count), settings, is_strict=is_strict))


def right(n: int, _sent: int) -> dict[str, int]:
    return {"square": n * n}


@given(count=st.integers(0, 30), batch_size=st.integers(1, 7), capacity=st.integers(1, 5))
def test_answers_are_in_the_order_of_the_requests_and_the_calls_within_their_bounds(
    count: int, batch_size: int, capacity: int
) -> None:
    service = Service(right, takes=0.01)
    found = outcomes(service, count, batch_size=batch_size, capacity=capacity)
    assert found == [right(n, 1) for n in range(count)]
    assert all(len(requests) <= batch_size for _, requests in service.calls)
    calls = -(-count // batch_size)
    assert len(service.calls) == calls
    assert service.most_at_once == min(capacity, calls)


def test_only_the_requests_that_failed_are_sent_again_after_waits_that_double() -> None:
    def answer(n: int, sent: int) -> Any:
        return OSError("busy") if n == 1 and sent < 4 else right(n, sent)

    service = Service(answer)
    assert outcomes(service, 2) == [right(0, 1), right(1, 1)]
    assert [requests for _, requests in service.calls] == [[0, 1], [1], [1], [1]]
    times = [at for at, _ in service.calls]
    waits = [after - before for before, after in pairwise(times)]
    share = waits[0] / 0.1
    assert 0.5 <= share <= 1, "a share of the back-off that depends on the request"
    assert waits == pytest.approx([share * 0.1, share * 0.2, share * 0.4])


def test_the_longest_wait_is_a_minute() -> None:
    service = Service(lambda _n, sent: OSError("busy") if sent < 21 else {"square": 0})
    outcomes(service, 1, retries=20)
    times = [at for at, _ in service.calls]
    assert 30 <= times[-1] - times[-2] <= 60


def test_a_request_that_fails_to_the_end_has_its_last_exception() -> None:
    def answer(n: int, sent: int) -> Any:
        return OSError(f"attempt {sent}") if n == 0 else right(n, sent)

    failed, answered = outcomes(Service(answer), 2)
    assert str(failed) == "attempt 4", "the call, and three repeats"
    assert answered == right(1, 1)


def test_a_call_that_raises_has_failed_with_all_of_its_requests() -> None:
    def answer(n: int, sent: int) -> Any:
        if n == 1 and sent == 1:
            raise ConnectionError
        return {"square": -1}

    service = Service(answer)
    assert outcomes(service, 2) == [{"square": -1}] * 2
    assert [requests for _, requests in service.calls] == [[0, 1], [0, 1]]


def test_a_call_that_takes_too_long_is_cancelled_and_has_failed() -> None:
    service = Service(right, takes=0.6)
    found = outcomes(service, 3, retries=1)
    assert [str(one) for one in found] == ["no answer within 500 ms"] * 3
    assert all(isinstance(one, TimeoutError) for one in found)
    assert service.at_once == 0, "no call goes on"
    assert len(service.calls) == 4
    assert service.sent == {}


def test_a_time_limit_of_the_client_keeps_its_own_words() -> None:
    (found,) = outcomes(Service(lambda _n, _sent: TimeoutError("of the client")), 1)
    assert str(found) == "of the client"


def test_a_refused_request_is_not_sent_again() -> None:
    service = Service(lambda n, sent: RefusedRequestError("no such") if n == 0 else right(n, sent))
    found = outcomes(service, 2)
    assert isinstance(found[0], RefusedRequestError)
    assert [requests for _, requests in service.calls] == [[0, 1]]


def returning(result: Any) -> AsyncMapFunction:
    class Returning(AsyncMapFunction):
        async def call(self, requests: Sequence[Request]) -> Any:
            del requests
            return result

    return Returning()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "call must return a list with an answer for each request, and it returned a NoneType: None"),
        ({"square": 1}, "call must return a list with an answer for each request, and it returned a dict: "),
        ([{"square": 1}], "call must return one answer for each request. requests=2, answers=1"),
        ([7, None], "an answer must be a mapping of column to value, or an exception, and it is a int: 7"),
    ],
)
def test_what_is_no_answer_to_each_request_is_a_failure_that_is_not_repeated(result: Any, message: str) -> None:
    found = outcomes(returning(result), 2)
    assert all(isinstance(one, AnswersMismatchError) for one in found)
    assert str(found[0]).startswith(message)


def test_after_a_failure_that_ends_the_epoch_nothing_more_is_sent() -> None:
    service = Service(lambda n, sent: OSError("down") if n == 0 else right(n, sent))
    found = outcomes(service, 20, is_strict=True, capacity=1, retries=1)
    assert isinstance(found[0], OSError)
    assert found[2:] == [None] * 18
    assert len(service.calls) == 2


def raising(error: BaseException) -> AsyncMapFunction:
    class Raising(AsyncMapFunction):
        async def call(self, requests: Sequence[Request]) -> Any:
            if requests[0]["n"] == 0:
                raise error
            await asyncio.sleep(10)

    return Raising()


def test_a_repeat_that_waits_when_the_epoch_ends_is_not_sent() -> None:
    def answer(n: int, sent: int) -> Any:
        return OSError("busy") if n == 0 else RefusedRequestError("no") if n == 1 and sent == 1 else right(n, sent)

    service = Service(answer)
    outcomes(service, 2, is_strict=True, batch_size=1)
    assert [requests for _, requests in service.calls] == [[0], [1]]


def test_a_function_may_change_requests_and_answers_of_calls_that_have_ended() -> None:
    class Changing(AsyncMapFunction):
        answer: dict[str, Any] = {"square": [0]}  # noqa: RUF012
        fails = True

        async def call(self, requests: Sequence[Request]) -> Any:
            self.answer["square"][0] = requests[0].pop("n") ** 2
            fails, self.fails = self.fails, False
            return [OSError("busy") if fails else self.answer]

    found = outcomes(Changing(), 4, capacity=1, batch_size=1)
    assert found == [{"square": [n * n]} for n in range(4)]


def test_a_group_of_errors_with_a_refusal_is_not_sent_again() -> None:
    service = Service(lambda _n, _sent: ExceptionGroup("tasks", [OSError("busy"), RefusedRequestError("no")]))
    outcomes(service, 1)
    assert len(service.calls) == 1


def test_an_error_below_the_class_ends_all_calls_at_once() -> None:
    with pytest.raises(RetryableError, match="the disk is full"):
        outcomes(raising(RetryableError("the disk is full")), 6, timeout_ms=60_000)


def test_a_client_that_cancels_its_own_call_has_failed() -> None:
    for client in (raising(asyncio.CancelledError("closed")), returning([asyncio.CancelledError("closed")])):
        (found,) = outcomes(client, 1, retries=0)
        assert str(found) == "the call was cancelled: closed"


def test_an_interrupted_run_cancels_its_calls() -> None:
    service = Service(right, takes=0.4)

    async def interrupted() -> None:
        work: Coroutine[Any, Any, Any] = outcomes_of(service, requests_of(4), SETTINGS, is_strict=True)
        task = asyncio.create_task(work)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(interrupted())
    assert service.at_once == 0
    assert len(service.calls) == 2


def test_an_idempotency_key_depends_on_the_step_and_the_request_alone() -> None:
    assert idempotency_key("geo", b"\x01a\x00\x00") == "3163434fe2480222b881de55b366e29b", "in every version"
    keys = {idempotency_key(step, key) for step in ("geo", "other") for key in (b"\x01a", b"\x01b")}
    assert len(keys) == 4
    assert all(len(key) == 32 for key in keys)
