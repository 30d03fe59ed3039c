"""uvicorn's protocol with limits of connections and of time, so that slow clients do not hold the server.

    too many connections              the new one ends at once (accepting.py)
    a handshake of TLS that is slow   ends after HEAD_SECONDS (accepting.py)
    a head that is too large          its connection ends
    a request whose head is slow      ends after HEAD_SECONDS, also on a connection that is used again
    an answer that is not read        ends after WRITE_SECONDS without progress

uvicorn itself ends idle connections after an answer. guard.py sends an answer in pieces, and each piece that is read is
progress. app.py limits the time of a body.

A client may close its own side of the connection after its last request. It gets its answers, and then the connection
ends. If the client is gone, the first write after that ends the connection. With TLS, the connection ends at once.

uvicorn's protocol is the one of httptools, whose parser of C takes a fifth less of the CPU time of a point read than
the parser of h11 (bench/state_server.py), or that of h11 where httptools is not installed.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as _Protocol

__all__ = ["CONNECTIONS_MAX", "HEAD_BYTES_MAX", "HEAD_SECONDS", "LimitedProtocol"]

CONNECTIONS_MAX = 512
HEAD_BYTES_MAX = 64 * 1024
HEAD_SECONDS = 10.0
WRITE_SECONDS = 30.0


class LimitedProtocol(_Protocol):
    """A connection of a client."""

    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS
    connections_max = CONNECTIONS_MAX

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head_bytes = 0  # that have arrived since the last request
        self._is_half_closed = False  # the client sends no more, and waits for answers

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()
        self._head_bytes = 0 if self._is_answering else self._head_bytes + len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()

    @override
    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays open for an answer."""
        self._is_half_closed = self.scheme == "http" and self._is_answering and not self.cycle.more_body
        return self._is_half_closed

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_half_closed and not self._is_answering:
            self.transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        for name in tuple(self._timers):
            self._cancel(name)
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._cancel("write")
        self._abort_after("write", self.write_seconds)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel("write")

    @property
    def _is_answering(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _watch_head(self) -> None:
        """Start the timer while the client has begun a request, or none at all; stop it when a request runs."""
        if self._is_answering:
            self._cancel("head")
        elif "head" not in self._timers:
            self._abort_after("head", self.head_seconds)

    def _abort_after(self, name: str, seconds: float) -> None:
        self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
