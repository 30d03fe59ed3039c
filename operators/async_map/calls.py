"""Calls with requests: in batches, several at a time, each with a time limit, and again after a failure.

The wait before the n-th repeat is a share of `backoff_ms` times 2 to the power of n-1, and at most BACKOFF_MS_MAX. The
share is between a half and one. It follows from the idempotency key, so batches that failed together come back apart,
and nothing here is random. All waiting is that of the event loop, so a test can give it another clock.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixedmode.operators.async_map.function import AsyncMapFunction, RefusedRequestError, Request
from mixedmode.operators.process.failures import PASSED_THROUGH
from mixedmode.operators.process.rows import owned_row

__all__ = ["AnswersMismatchError", "CallSettings", "Outcome", "outcomes_of"]

BACKOFF_MS_MAX = 60_000
_DOUBLINGS_MAX = 16  # from 1 ms, these are beyond the greatest wait
#: an answer, or why there is none
Outcome = Mapping[str, Any] | Exception


class AnswersMismatchError(Exception):
    """A function has returned something else than one answer for each request. It would do so again."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The limits of calls. `batch_size`: the most requests of a call. `capacity`: the most calls at a time.

    `timeout_ms`: of each call. `retries`: how often a request that failed is sent again.
    """

    batch_size: int
    capacity: int
    timeout_ms: int
    retries: int
    backoff_ms: int


async def outcomes_of(
    function: AsyncMapFunction, requests: Sequence[Request], settings: CallSettings, *, is_strict: bool
) -> list[Outcome | None]:
    """Return the outcome of each request (n,).

    is_strict: the first failure ends the epoch, so nothing is sent after it. A request that was not sent has the
    outcome None.
    """
    outcomes: list[Outcome | None] = [None] * len(requests)
    starts = range(0, len(requests), settings.batch_size)
    batches = iter([range(start, min(start + settings.batch_size, len(requests))) for start in starts])
    sender = _Sender(function, settings, is_strict=is_strict)
    workers = [
        asyncio.create_task(_work(sender, batches, requests, outcomes))
        for _ in range(min(settings.capacity, len(starts)))
    ]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return outcomes


async def _work(
    sender: "_Sender",
    batches: Iterator[range],
    requests: Sequence[Request],
    outcomes: list[Outcome | None],
) -> None:
    for batch in batches:
        if sender.has_ended:
            return
        for index, outcome in zip(batch, await sender.sent([requests[index] for index in batch]), strict=True):
            outcomes[index] = outcome


class _Sender:
    """Sends batches of requests. `has_ended`: one has failed, and nothing more is to be sent."""

    def __init__(self, function: AsyncMapFunction, settings: CallSettings, *, is_strict: bool) -> None:
        self._function = function
        self._is_strict = is_strict
        self._settings = settings
        self.has_ended = False

    async def sent(self, requests: Sequence[Request]) -> list[Outcome]:
        """Return the outcomes of a batch (n,). Those that failed are sent again, without the others."""
        outcomes = await self._called(requests)
        for repeat in range(1, self._settings.retries + 1):
            failed = [index for index, outcome in enumerate(outcomes) if _may_be_sent_again(outcome)]
            if not failed:
                break
            await asyncio.sleep(self._wait_seconds(repeat, requests[failed[0]]))
            if self.has_ended:
                break
            again = await self._called([requests[index] for index in failed])
            for index, outcome in zip(failed, again, strict=True):
                outcomes[index] = outcome
        self.has_ended |= self._is_strict and any(isinstance(outcome, Exception) for outcome in outcomes)
        return outcomes

    async def _called(self, requests: Sequence[Request]) -> list[Outcome]:
        """Call once. Return the outcome of each request (n,)."""
        timeout_ms = self._settings.timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                # copies, which a function may change
                answers = await self._function.call([Request(one, one.idempotency_key) for one in requests])
            return _checked(answers, len(requests))
        except PASSED_THROUGH:
            raise
        except TimeoutError as error:
            own = TimeoutError(f"no answer within {timeout_ms} ms")  # that of asyncio says nothing
            return [own if limit.expired() else error] * len(requests)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return [_cancelled(error)] * len(requests)  # by the client itself
        except Exception as error:  # noqa: BLE001  # whatever the function raises
            return [error] * len(requests)

    def _wait_seconds(self, repeat: int, first: Request) -> float:
        share = 0.5 + int(first.idempotency_key[:8], 16) / 2**33
        doubled_ms = self._settings.backoff_ms << min(repeat - 1, _DOUBLINGS_MAX)
        return share * min(doubled_ms, max(BACKOFF_MS_MAX, self._settings.backoff_ms)) / 1000


def _may_be_sent_again(outcome: Outcome) -> bool:
    if isinstance(outcome, ExceptionGroup):
        return outcome.subgroup(RefusedRequestError) is None
    return isinstance(outcome, Exception) and not isinstance(outcome, RefusedRequestError | AnswersMismatchError)


def _checked(answers: Any, requests: int) -> list[Outcome]:
    """Return the answers as a list. Raise AnswersMismatchError unless there is one for each request."""
    if isinstance(answers, Mapping | str) or not isinstance(answers, Sequence):
        msg = (
            "call must return a list with an answer for each request, and it returned a "
            f"{type(answers).__name__}: {answers!r:.100}"
        )
        raise AnswersMismatchError(msg)
    if len(answers) != requests:
        msg = f"call must return one answer for each request. requests={requests}, answers={len(answers)}"
        raise AnswersMismatchError(msg)
    return list(map(_outcome, answers))


def _outcome(answer: Any) -> Outcome:
    """Return an answer as the outcome of its request. It is copied, because a function may change it afterwards."""
    if isinstance(answer, Mapping):
        return owned_row(answer)
    if isinstance(answer, Exception):
        return answer
    if isinstance(answer, asyncio.CancelledError):  # from gather(..., return_exceptions=True)
        return _cancelled(answer)
    msg = (
        f"an answer must be a mapping of column to value, or an exception, and it is a {type(answer).__name__}: "
        f"{answer!r:.100}"
    )
    return AnswersMismatchError(msg)


def _cancelled(error: asyncio.CancelledError) -> Exception:
    return RuntimeError(f"the call was cancelled: {error}")
