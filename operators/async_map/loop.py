"""An event loop in a thread of its own, so that it also runs where the caller's thread has a loop, as in a notebook.

asyncio.to_thread has as many threads as calls may run at a time. asyncio's own number follows from the processors, so
calls would wait for a thread while their time limits run.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["EventLoop"]

T = TypeVar("T")
_THREADS_MIN = 32  # threads begin only when they are needed


class EventLoop:
    """Runs coroutines, one after the other, in one event loop, until it is closed."""

    def __init__(self, calls: int) -> None:
        """calls: how many calls run at a time, each of which may need a thread."""
        self._threads = max(calls, _THREADS_MIN)
        self._runner = asyncio.Runner(loop_factory=self._new_loop)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="async-map")

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine, or raise its exception. If the caller is interrupted, it is cancelled."""
        future = self._thread.submit(self._runner.run, coroutine)
        try:
            return future.result()
        finally:
            if not future.done():
                loop = self._runner.get_loop()
                loop.call_soon_threadsafe(_cancel_all, loop)

    def close(self) -> None:
        """Cancel what still runs, and close the loop."""
        self._thread.submit(self._runner.close)
        self._thread.shutdown()

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_default_executor(ThreadPoolExecutor(self._threads, thread_name_prefix="async-map-call"))
        return loop


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
