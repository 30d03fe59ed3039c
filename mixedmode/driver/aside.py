"""Requests to an object store that an epoch need not wait for: beside its tasks, and after its publication.

    beside(work)   work and the block run at the same time; both have ended when the block ends
    after(work)    work may go on while the next epoch runs its tasks; `settle`, before the next commit, waits for it

In a folder such work takes no time worth a thread, and is done where it is asked for.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from mixedmode.errors import RetryableError

__all__ = ["Aside"]

_THREADS = 2  # one for each kind of work


class Aside:
    """Context manager for the work that a driver does aside. `is_remote`: the work waits for an object store."""

    def __init__(self, *, is_remote: bool) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="mixedmode-aside") if is_remote else None
        self._after: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Wait for all work. An error of the work is raised if the block has raised none."""
        try:
            if error is None:
                self.settle()
        finally:
            if self._pool is not None:
                self._pool.shutdown()

    @contextmanager
    def beside(self, work: Callable[[], None]) -> Iterator[None]:
        """Do the work while the block runs, and raise its error after the block.

        If the block fails, too, its error counts, unless the work says that this start of the job should not go on:
        then that is the cause.
        """
        if self._pool is None:
            work()
            yield
            return
        working = self._pool.submit(work)
        try:
            yield
        except BaseException:
            with suppress(RetryableError):
                working.result()
            raise
        working.result()

    def after(self, work: Callable[[], None]) -> None:
        """Do the work at some time before `settle` returns. Earlier work is settled first."""
        self.settle()
        if self._pool is None:
            work()
        else:
            self._after = self._pool.submit(work)

    def settle(self) -> None:
        """Wait until the work of `after` is done, and raise its error, once."""
        working, self._after = self._after, None
        if working is not None:
            working.result()
