"""The checks before every route, and the headers of every answer.

    Host, the query and the length of the body  refused before anything is read
    tokens, Origin                              access.py
    an error of a route                         logged here
    a large answer                              sent in pieces, so that the protocol sees whether the client reads it

The answer to an unexpected error does not have its text, which may tell too much.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mixedmode.config.outside_texts import whole_number
from mixedmode.serve.access import CONTROL_HEADER, Kind, Refusal, refusal
from mixedmode.serve.address import Tokens
from mixedmode.serve.documents import as_json

__all__ = ["BODY_BYTES_MAX", "Guard", "error_response", "json_response"]

_logger = logging.getLogger(__name__)
BODY_BYTES_MAX = 64 * 1024
_PIECE_BYTES = 256 * 1024
_SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_READ_ONCE = frozenset({b"host", b"authorization", b"origin"})  #: two of them would be read differently
_READ = _READ_ONCE | {b"content-length", CONTROL_HEADER.encode()}
_SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in _SECURITY.items()]


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer without secrets."""
    return Response(as_json(document), status, headers, media_type="application/json")


def error_response(status: int, message: str, kind: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with an error.  kind: of the error, such as RetryableError."""
    headers = {**(headers or {}), **({"www-authenticate": "Bearer"} if status == 401 else {})}
    if status in {408, 413}:  # the rest of the body is not read
        headers["connection"] = "close"
    return json_response({"error": {"kind": kind or f"{status}", "message": message}}, status, headers)


class Guard:
    """The application with its checks. `kind_of_path`: (method, path) -> what a request needs."""

    def __init__(self, app: ASGIApp, tokens: Tokens, kind_of_path: Callable[[str, str], Kind]) -> None:
        self._app = app
        self._tokens = tokens
        self._kind_of_path = kind_of_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = is_complete = False

        async def send_safely(message: Message) -> None:
            nonlocal is_started, is_complete
            if message["type"] == "http.response.start":
                is_started = True
                message["headers"] = [*message["headers"], *_SECURITY_HEADERS]  # no route has one of these
            for piece in _pieces(message):
                await send(piece)
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        refused = self._refusal(scope)
        try:
            app = self._app if refused is None else error_response(refused.status, refused.message)
            await app(scope, receive, send_safely)
        except Exception:
            _logger.exception("a request to the server failed, and the job goes on")
            if is_started and not is_complete:
                raise  # the connection ends, so that the answer does not look whole

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        names = [name for name, _ in headers if name in _READ_ONCE]
        if len(names) > len(set(names)):
            return Refusal(400, "a header occurs twice")
        by_name = {name.decode(): value.decode("latin-1") for name, value in headers if name in _READ}
        method = scope["method"]
        if not _is_text(scope["query_string"]):
            return Refusal(400, "the query is not UTF-8: write each byte of a character beyond ASCII as %XX")
        length = whole_number(by_name.get("content-length", "0"))
        if length is None or length > (0 if method in {"GET", "HEAD"} else BODY_BYTES_MAX):
            return Refusal(413, f"the body is too large: a POST has at most {BODY_BYTES_MAX} bytes, a GET none")
        return refusal(self._kind_of_path(method, scope["path"]), by_name, self._tokens)


def _is_text(query: bytes) -> bool:
    """Return whether the bytes that a query has as %XX are UTF-8. The routes would read others as U+FFFD."""
    if query.isascii() and b"%" not in query:
        return True
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        return False
    return True


def _pieces(message: Message) -> Iterator[Message]:
    """Yield a message of an answer, the content of a large body in several ones."""
    content: bytes = message.get("body", b"")
    starts = range(0, len(content), _PIECE_BYTES)
    for start in starts[:-1]:
        yield {**message, "body": content[start : start + _PIECE_BYTES], "more_body": True}
    yield message if len(starts) < 2 else {**message, "body": content[starts[-1] :]}
