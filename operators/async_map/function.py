"""Base class of the functions of `async-map` steps: they ask a service for the answers to requests, many at a time.

A function object serves one subtask in one epoch, and lives in one event loop:

    __init__(**args) -> open -> call, many times and at the same time -> close

It is opened only if there is a request to call with.
"""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from mixedmode.errors import InvalidJobError
from mixedmode.operators.classes import ClassKind
from mixedmode.operators.process.function import OpenContext

__all__ = ["ASYNC_MAP_FUNCTION", "AsyncMapFunction", "RefusedRequestError", "Request", "idempotency_key", "problem_of"]

_KEY_BYTES = 16


class Request(dict[str, Any]):
    """A request, {key column: value}. `idempotency_key` is the same whenever this request is sent, 32 hex digits."""

    __slots__ = ("idempotency_key",)

    def __init__(self, columns: Mapping[str, Any], idempotency_key: str) -> None:
        super().__init__(columns)
        self.idempotency_key = idempotency_key


class RefusedRequestError(Exception):
    """The service has refused a request, and would refuse it again: the request is not retried."""


class AsyncMapFunction:
    """Ask a service for answers. See docs/async-map.md."""

    async def open(self, context: OpenContext) -> None:
        """Prepare the function, for example make a client of the service. Called once, before the first call."""

    async def call(self, requests: Sequence[Request]) -> Sequence[Mapping[str, Any] | Exception]:
        """Return the answer to each request, in their order: {column of `output`: value}.

        If the function raises, all of these requests have failed. To let only one of them fail, return an exception in
        the place of its answer. Requests that failed are sent again, unless the exception is a RefusedRequestError.
        """
        del requests
        msg = f"{type(self).__name__} has no method call. Write one"
        raise NotImplementedError(msg)

    async def close(self) -> None:
        """Release resources. Called once at the end, also after a failure, if `open` was called."""


ASYNC_MAP_FUNCTION = ClassKind(
    noun="async map function",
    key="async-map",
    bases=(AsyncMapFunction,),
    derives_from="mixedmode.process.AsyncMapFunction",
)


def problem_of(function: type[AsyncMapFunction], label: str) -> InvalidJobError | None:
    """Return the error in the definition of a class, found before any request; None if it is correct."""
    if function.call is AsyncMapFunction.call:
        msg = f"the class has no method call, so it cannot answer a request. Write `async def call`. async-map={label}"
        return InvalidJobError(msg)
    for name in ("open", "call", "close"):
        if not inspect.iscoroutinefunction(getattr(function, name)):
            msg = (
                f"the method {name} cannot be awaited, so a call would block all others. Write `async def {name}`, "
                f"without `yield`. async-map={label}"
            )
            return InvalidJobError(msg)
    return None


def idempotency_key(operator_id: str, key: bytes) -> str:
    """Return the idempotency key of the request with this encoded key: a digest of it and of the name of the step.

    It depends on nothing else, so a repeated epoch, another mode and another parallelism send the same.
    """
    return hashlib.blake2b(operator_id.encode() + b"\0" + key, digest_size=_KEY_BYTES).hexdigest()
