"""Runs actions of Spark side by side, each in a thread of its own.

Spark schedules the tasks of all jobs that run: those of the job that began first get cores first, and those of the
others get the cores that it leaves free. So the number of tasks that run at once, and with it their memory, stays the
same. The threads only wait for Spark; they inherit the description, the tags and the job group of the thread that
starts them, by which a streaming query and a time limit cancel jobs.
"""

import queue
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from mixedmode.spark.jobs import CANCEL_SECONDS, cancel, tagged

__all__ = ["SideBySide"]

ResultT = TypeVar("ResultT")


class SideBySide(Generic[ResultT]):
    """Actions that run at the same time. As a context manager, it cancels and awaits those that still run at its end.

    Invariants (tests/spark/test_side_by_side.py):
      I1  at the end of the block, no action runs
      I2  if several actions have failed, the error is that of the one which was started first
    """

    def __init__(self, session: SparkSession, tag: str) -> None:
        """`tag`: unique for this block among all jobs of the session, without a comma."""
        self._session = session
        self._tag = tag
        self._threads: dict[str, InheritableThread] = {}
        self._ended: queue.SimpleQueue[tuple[str, ResultT | BaseException]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for thread in self._threads.values():
            while thread.is_alive():
                cancel(self._session, self._tag)
                thread.join(CANCEL_SECONDS)

    @property
    def is_running(self) -> bool:
        """Return whether an action was started whose result `next` has not returned."""
        return bool(self._threads)

    def start(self, name: str, action: Callable[[], ResultT]) -> None:
        """Start an action under a name that no running one has."""
        assert name not in self._threads, name

        def run() -> None:
            try:
                self._ended.put((name, action()))
            except BaseException as error:  # noqa: BLE001 - `next` raises it
                self._ended.put((name, error))

        self._threads[name] = thread = InheritableThread(target=run, name=f"action {name}", daemon=True)
        with tagged(self._session, self._tag):
            thread.start()

    def next(self) -> tuple[str, ResultT]:
        """Wait until an action ends. Return its name and its result, or raise its error."""
        name, result = self._ended.get()
        if not isinstance(result, BaseException):
            self._threads.pop(name).join()
            return name, result
        failed = {name: result}
        with suppress(queue.Empty):
            while True:
                other, found = self._ended.get_nowait()
                if isinstance(found, BaseException):
                    failed[other] = found
        raise next(failed[name] for name in self._threads if name in failed)
