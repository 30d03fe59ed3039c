"""A service for tests: what it was asked, what it answers, and when it fails."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from mixedmode.keys import KeySchema
from mixedmode.operators.async_map import ASYNC_MAP_FUNCTION, AsyncMapFunction, AsyncMapOperator, CallSettings, Request
from mixedmode.operators.classes import GivenClass
from mixedmode.operators.process import OnError
from mixedmode.operators.process.function import OpenContext

KEYS = KeySchema((pa.field("k", pa.string()),))
INSTANT = pa.timestamp("us", "UTC")
ROW = (pa.field("v", pa.int64()), pa.field("t", INSTANT))
ANSWER = (pa.field("upper", pa.string()), pa.field("nth", pa.int64()))
CALLS = CallSettings(batch_size=2, capacity=2, timeout_ms=60_000, retries=3, backoff_ms=1)


@dataclass
class Book:
    """The record of a service. `answer`: of a request's `k`, and how often it was sent, for requests that succeed.

    `nth` in an answer says how often the service has answered this request, so a second answer differs.
    """

    fails: Callable[[Any, int], Exception | None] = lambda _k, _sent: None
    sent: Counter[Any] = field(default_factory=Counter)
    answered: Counter[Any] = field(default_factory=Counter)
    idempotency_keys: dict[Any, set[str]] = field(default_factory=dict)
    calls: list[list[Any]] = field(default_factory=list)
    opened: int = 0
    closed: int = 0


class Service(AsyncMapFunction):
    """Writes in the book with this number."""

    books: ClassVar[dict[int, Book]] = {}

    def __init__(self, book: int) -> None:
        self.book = self.books[book]

    @classmethod
    def new_book(cls, **settings: Any) -> int:
        """Return the number of a new book."""
        number = len(cls.books)
        cls.books[number] = Book(**settings)
        return number

    async def open(self, context: OpenContext) -> None:
        del context
        self.book.opened += 1

    async def call(self, requests: Sequence[Request]) -> list[Any]:
        self.book.calls.append([request["k"] for request in requests])
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Any:
        book, k = self.book, request["k"]
        book.sent[k] += 1
        book.idempotency_keys.setdefault(k, set()).add(request.idempotency_key)
        failure = book.fails(k, book.sent[k])
        if failure is not None:
            return failure
        book.answered[k] += 1
        return {"upper": None if k is None else k.upper(), "nth": book.answered[k]}

    async def close(self) -> None:
        self.book.closed += 1


def operator_of(
    book: int, *, remember_ms: int | None = None, on_error: OnError = "fail", calls: CallSettings = CALLS
) -> AsyncMapOperator:
    """Return the operator of a step that asks the service: key `k`, other columns ROW."""
    return AsyncMapOperator(
        operator_id="asked",
        function=GivenClass(ASYNC_MAP_FUNCTION, Service, {"book": book}),
        key_schema=KEYS,
        row_fields=ROW,
        answer_fields=ANSWER,
        calls=calls,
        on_error=on_error,
        remember_ms=remember_ms,
    )
