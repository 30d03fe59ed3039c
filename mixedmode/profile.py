"""The profile of a task: seconds of work by stage.

One stage runs at a time. A stage that begins inside another one pauses it. So the seconds of all stages add up to the
time during which any stage ran, and no time is counted twice.

Example: stage A runs 3 s, of which an inner stage B takes 1 s. The profile is A: 2 s, B: 1 s.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Profile:
    """Seconds by stage, for one thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = 0.0

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds by stage, in the order in which the stages began.

        The running stage counts up to its last pause.
        """
        return dict(self._seconds)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run the stage for the duration of the `with` block."""
        self._pause()
        self._running.append(name)
        self._seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self._pause()
            self._running.pop()

    def each(self, name: str, items: Iterator[T]) -> Iterator[T]:
        """Yield the items. The stage runs while the next item is made, and not while the caller has it."""
        while True:
            with self.stage(name):
                item = next(items, _END)
            if item is _END:
                return
            yield item  # type: ignore[misc]  # mypy cannot tell the sentinel from a T
            del item  # so that it is gone while the next one is made

    def _pause(self) -> None:
        """Add the time since the last change to the running stage, if there is one."""
        now = self._clock()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now


_END = object()


def add_seconds(*profiles: Mapping[str, float]) -> dict[str, float]:
    """Return the profiles of several tasks as one: the sum of the seconds of each stage."""
    total: dict[str, float] = {}
    for profile in profiles:
        for name, seconds in profile.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
