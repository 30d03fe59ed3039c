"""The routes of the server.

GET   /  /assets/...                                     the page, from memory: no path of a request names a file
GET   /healthz  /readyz  /metrics
GET   /api/v1/{jobs,job,epochs,checkpoints,timeline}     ?job=ID  ?limit=N  ?before=EPOCH
GET   /api/v1/state  /api/v1/state/STEP                  state_routes.py
GET   /api/v1/events                                     Server-Sent Events
POST  /api/v1/{savepoint,rescale,pause,resume,stop,drain}of a running job
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mixedmode.config.outside_texts import parse_json, whole_number
from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from mixedmode.queryable.kept import KeptState
from mixedmode.serve.access import Kind
from mixedmode.serve.address import Tokens
from mixedmode.serve.control import Busy, Control
from mixedmode.serve.documents import Document
from mixedmode.serve.guard import BODY_BYTES_MAX, Guard, error_response, json_response
from mixedmode.serve.metrics import CONTENT_TYPE, JobMetrics
from mixedmode.serve.state_routes import StateReads, StateRequest
from mixedmode.serve.stream import Hub, frame
from mixedmode.serve.view import EPOCHS_KEPT, JobView

__all__ = ["OPERATIONS", "Site", "application"]

OPERATIONS = ("savepoint", "rescale", "pause", "resume", "stop", "drain")
BODY_SECONDS = 10.0
POLL_SECONDS = 2.0  # how often a stream over checkpoint folders looks for new epochs
_EPOCHS_DEFAULT = 500
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass
class Site:
    """The parts that the server shows. Over checkpoint folders, there are no metrics and no control."""

    jobs: Sequence[JobView]
    hub: Hub = field(default_factory=Hub)
    metrics: JobMetrics | None = None
    control: Control | None = None
    states: Mapping[str, KeptState] = field(default_factory=dict)  #: by the id of the job

    @property
    def is_live(self) -> bool:
        """Return whether the events of a running job arrive at the hub."""
        return self.metrics is not None


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return {path of a request: (content, media type)} of the files of the page."""
    folder = files("mixedmode.serve") / "page"
    found = {}
    for file in folder.iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            path = "/" if file.name == "index.html" else f"/assets/{file.name}"
            found[path] = (file.read_bytes(), _TYPES[suffix])
    return found


def application(site: Site, tokens: Tokens) -> Guard:
    """Return the application with its checks."""
    page = page_files()
    routes = [Route(path, partial(_file, *found)) for path, found in page.items()]
    routes += [
        Route("/healthz", _healthz),
        Route("/readyz", partial(_readyz, site)),
        Route("/metrics", partial(_metrics, site)),
        Route("/api/v1/jobs", partial(_jobs, site)),
        Route("/api/v1/events", partial(_events, site)),
    ]
    reads: dict[str, Callable[[JobView, Request], object]] = {
        "job": lambda job, _request: {**job.job(), "operations": list(OPERATIONS) if site.control else []},
        "epochs": _epochs,
        "checkpoints": lambda job, _request: {"checkpoints": job.checkpoints()},
        "timeline": lambda job, _request: job.timeline(),
    }
    routes += [Route(f"/api/v1/{name}", partial(_read, site, read)) for name, read in reads.items()]
    routes += [Route(f"/api/v1/{name}", partial(_operation, site, name), methods=["POST"]) for name in OPERATIONS]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_error, MixedmodeError: _mixedmode_error, Exception: _failed},
        max_body_size=BODY_BYTES_MAX,
    )
    app.router.redirect_slashes = False
    public = {*page, "/healthz", "/readyz"}

    def kind_of_path(method: str, path: str) -> Kind:
        if method == "POST":
            return "control"
        return "public" if path in public else "read"

    return Guard(_state_first(app, site), tokens, kind_of_path)


def _state_first(app: ASGIApp, site: Site) -> ASGIApp:
    """Return the application that answers requests for state itself (state_routes.py)."""
    reads = {name: StateReads(kept) for name, kept in site.states.items()}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = StateRequest.of(scope)
        if request is None:
            await app(scope, receive, send)
            return
        try:
            if scope["method"] not in {"GET", "HEAD"}:
                raise HTTPException(405, headers={"allow": "GET, HEAD"})  # noqa: TRY301
            found = reads.get(_job_named(site, request.job).id)
            if found is None:
                raise HTTPException(409, "this job has no checkpoint folder, so its state cannot be read")  # noqa: TRY301
            response = await found.answer(request)
        except HTTPException as error:
            response = await _http_error(Request(scope), error)
        except MixedmodeError as error:
            response = await _mixedmode_error(Request(scope), error)
        except Exception as error:
            await (await _failed(Request(scope), error))(scope, receive, send)
            raise
        await response(scope, receive, send)

    return answer


async def _file(content: bytes, media_type: str, _request: Request) -> Response:
    return Response(content, media_type=media_type)


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(site: Site, _request: Request) -> Response:
    """Return 200 if all jobs are ready. The reason names no value of the job, since this needs no token."""
    ready = [(await run_in_threadpool(job.readiness)) for job in site.jobs]
    waits = next((found for found in ready if not found.is_ready), None)
    return PlainTextResponse("ready\n") if waits is None else PlainTextResponse(f"not ready: {waits.reason}\n", 503)


async def _metrics(site: Site, _request: Request) -> Response:
    if site.metrics is None:
        return error_response(404, "only a running job has metrics: start it with `mixedmode run --serve`")
    return Response(site.metrics.exposition(), headers={"content-type": CONTENT_TYPE})


async def _jobs(site: Site, _request: Request) -> Response:
    return json_response({"jobs": [job.id for job in site.jobs], "is_live": site.is_live})


async def _read(site: Site, read: Callable[[JobView, Request], object], request: Request) -> Response:
    job = _job_of(site, request)
    return json_response(await run_in_threadpool(read, job, request))


def _epochs(job: JobView, request: Request) -> Document:
    limit = _number(request, "limit", _EPOCHS_DEFAULT)
    before = _number(request, "before", None)
    if limit is None or not 1 <= limit <= EPOCHS_KEPT:
        raise HTTPException(400, f"limit is a number from 1 to {EPOCHS_KEPT}")
    return {"epochs": job.epochs(limit, before)}


def _number(request: Request, name: str, default: int | None) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    number = whole_number(text)
    if number is None:
        raise HTTPException(400, f"{name} is not a whole number from 0 on")
    return number


def _job_of(site: Site, request: Request) -> JobView:
    return _job_named(site, request.query_params.get("job"))


def _job_named(site: Site, wanted: str | None) -> JobView:
    """Return the job of a name; None: the first one."""
    found = next((job for job in site.jobs if wanted in {None, job.id}), None)
    if found is None:
        raise HTTPException(404, "there is no job of this name; /api/v1/jobs lists them")
    return found


async def _events(site: Site, request: Request) -> Response:
    job = _job_of(site, request)
    if site.hub.is_full:
        raise HTTPException(503, "too many clients read the stream")
    live = site.hub.events(None if site.is_live else partial(_new_epochs, job))
    events = iter(()) if request.method == "HEAD" else live  # a head alone has an end
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _new_epochs(job: JobView) -> AsyncIterator[str]:
    """Yield the epochs that are committed from now on, as frames; "" when there is none."""
    known: dict[int, int] | None = None  #: {epoch: when it was committed}
    while True:
        epochs = await run_in_threadpool(job.epochs, EPOCHS_KEPT)
        new = [] if known is None else [epoch for epoch in epochs if _is_new(epoch, known)]
        known = {epoch["epoch"]: epoch["committed_ms"] for epoch in epochs}
        yield "".join(frame("epoch", epoch) for epoch in new)
        await asyncio.sleep(POLL_SECONDS)


def _is_new(document: Document, known: Mapping[int, int]) -> bool:
    """Return whether an epoch came after all that are known, by its number or its time, or replaces one of them.

    A job that begins anew commits from epoch 0. After a job went back, an epoch may show up that was too old before.
    """
    epoch, committed_ms = int(document["epoch"]), int(document["committed_ms"])
    is_later = epoch > max(known, default=-1) or committed_ms > max(known.values(), default=-1)
    return is_later or known.get(epoch, committed_ms) != committed_ms


async def _operation(site: Site, name: str, request: Request) -> Response:
    if site.control is None:
        return error_response(404, "only a running job has operations: start it with `mixedmode run --serve`")
    _job_of(site, request)
    try:
        done = await run_in_threadpool(site.control.run, name, await _body(request))
    except Busy:
        return error_response(409, "another savepoint is being taken; wait until it is done")
    return json_response(done, 200 if name == "savepoint" else 202)


async def _body(request: Request) -> dict[str, Any]:
    """Return the body of a request, an object of JSON; {} without one."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            text = await request.body()
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {BODY_SECONDS:.0f} s") from None
    except ClientDisconnect:
        raise HTTPException(400, "the client has gone") from None
    if not text:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be JSON, with content-type: application/json")
    try:
        found = parse_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body is not an object of JSON")
    return found


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), error
    return error_response(error.status_code, error.detail, headers=error.headers)  # Allow, with status 405


async def _mixedmode_error(_request: Request, error: Exception) -> Response:
    statuses: Mapping[type, int] = {InvalidJobError: 409, RetryableError: 503, CorruptStateError: 500}
    return error_response(statuses.get(type(error), 500), str(error), type(error).__name__)


async def _failed(_request: Request, _error: Exception) -> Response:
    return error_response(500, "the server failed; its log has the reason")
