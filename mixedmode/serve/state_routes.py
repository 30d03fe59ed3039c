"""Requests for state: /api/v1/state and /api/v1/state/STEP.

These requests are the many ones. The routes, the requests and the answers of Starlette would cost a point read about as
much as the read itself, so this is an application of its own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mixedmode.errors import InvalidJobError
from mixedmode.queryable.kept import KeptState
from mixedmode.serve.documents import Document, as_json
from mixedmode.serve.guard import error_response, json_response
from mixedmode.serve.point_reads import PointReads
from mixedmode.serve.state import (
    ARROW,
    StateQuestion,
    arrow_stream,
    prefers_arrow,
    rows_document,
    steps_document,
    steps_epoch,
)

__all__ = ["StateReads", "StateRequest"]

_PATH = re.compile(r"/api/v1/state(?:/([^/]+))?")
_STATE_READS = 4  # at the same time; more would only wait for one another
_SCANS_WAITING = 256
_POINTS_WAITING = 4096


@dataclass(frozen=True, slots=True)
class StateRequest:
    """A request. `step`: None asks for the steps. `parameters` are those of the query, in its order."""

    step: str | None
    parameters: Sequence[tuple[str, str]]
    is_arrow: bool

    @classmethod
    def of(cls, scope: Scope) -> Self | None:
        """Return the request; None if it is another one."""
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return None
        query = scope["query_string"].decode("latin-1")
        accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")
        return cls(found[1], parse_qsl(query, keep_blank_values=True), prefers_arrow(accept))

    @property
    def job(self) -> str | None:
        """The job that the request names."""
        return next((value for name, value in self.parameters if name == "job"), None)


class JsonRows:
    """Rows as an answer."""

    def __init__(self, document: Document) -> None:
        self._body = as_json(document).encode()
        headers = _state_headers(document["epoch"], document["next"])
        headers |= {"content-type": "application/json", "content-length": str(len(self._body))}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


class StateReads:
    """Reads of a job's state. They have threads of their own, so other requests go on."""

    def __init__(self, state: KeptState) -> None:
        self._state = state
        self._limiter = CapacityLimiter(_STATE_READS)
        self._points = PointReads(state)

    async def answer(self, request: StateRequest) -> ASGIApp:
        """Answer from the state of a step, or name the steps.  Raises HTTPException, and the errors of open_state."""
        if self._points.waiting >= _POINTS_WAITING or self._limiter.statistics().tasks_waiting >= _SCANS_WAITING:
            raise HTTPException(503, "too many requests wait for state; ask again")
        try:
            if request.step is None:
                return await run_sync(_steps, self._state, steps_epoch(request.parameters), limiter=self._limiter)
            question = StateQuestion.of(request.step, request.parameters, is_arrow=request.is_arrow)
            if question.is_point_read and not request.is_arrow:
                return JsonRows(await self._points.ask(question))
            rows = _arrow_rows if request.is_arrow else _json_rows
            return await run_sync(rows, self._state, question, limiter=self._limiter)
        except InvalidJobError as error:
            return error_response(400, str(error), "InvalidJobError")


def _steps(state: KeptState, epoch: int | None) -> Response:
    with state.snapshot(epoch) as snapshot:
        return json_response(steps_document(snapshot), headers={"x-mixedmode-epoch": str(snapshot.epoch)})


def _json_rows(state: KeptState, question: StateQuestion) -> Response:
    answer = question.answer(state)
    document = rows_document(answer, question.keys)
    return json_response(document, headers=_state_headers(answer.epoch, answer.next))


def _arrow_rows(state: KeptState, question: StateQuestion) -> Response:
    answer = question.answer(state)
    return Response(arrow_stream(answer), headers=_state_headers(answer.epoch, answer.next), media_type=ARROW)


def _state_headers(epoch: int, following: str | None) -> dict[str, str]:
    found = {"x-mixedmode-epoch": str(epoch), "vary": "accept"}
    return found if following is None else {**found, "x-mixedmode-next": following}
