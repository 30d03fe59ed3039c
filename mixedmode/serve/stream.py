"""Server-Sent Events: each client has a queue of its own, which any thread fills through the server's event loop.

A client that reads too slowly fills its queue. Then its stream ends, and the client connects again and reads the job
anew. So one slow client costs a bounded amount of memory, and delays nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from mixedmode.serve.documents import Document, as_json

__all__ = ["CLIENTS_MAX", "COMMENT", "QUEUE_MAX", "Hub", "frame"]

CLIENTS_MAX = 64
QUEUE_MAX = 256
PING_SECONDS = 15.0
#: keeps proxies from closing a quiet stream
COMMENT = ": still here\n\n"


def frame(name: str, document: Document) -> str:
    """Return one event of the stream. JSON of a document has no line breaks."""
    return f"event: {name}\ndata: {as_json(document)}\n\n"


class Hub:
    """The clients of the stream. `publish` and `close` may be called from any thread, all else from the event loop."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def publish(self, name: str, document: Document) -> None:
        """Send an event to all clients."""
        if self._loop is not None and self._queues:
            self._call(frame(name, document))

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        if self._loop is not None:
            self._call(None)

    def _call(self, text: str | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._send, text)
        except RuntimeError:  # the server has ended meanwhile, and its loop is closed
            self._loop = None

    def _send(self, text: str | None) -> None:
        for queue in self._queues:
            is_behind = queue.full()
            while is_behind and not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None if is_behind else text)

    @property
    def is_full(self) -> bool:
        """Return whether no further client is accepted."""
        return len(self._queues) >= CLIENTS_MAX

    async def events(self, polled: Callable[[], AsyncIterator[str]] | None = None) -> AsyncIterator[str]:
        """Yield the events from now on, until the stream is closed.

        polled: yields the frames of a source that does not publish to this hub.
        """
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue(QUEUE_MAX)
        self._queues.add(queue)
        try:
            yield "retry: 2000\n\n"
            if polled is not None:
                async for text in polled():
                    if self.is_closed:
                        return
                    yield text or COMMENT
            while not self.is_closed:
                try:
                    async with asyncio.timeout(PING_SECONDS):
                        found = await queue.get()
                except TimeoutError:
                    found = COMMENT
                if found is None:
                    return
                yield found
        finally:
            self._queues.discard(queue)
