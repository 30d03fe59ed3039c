"""Where the time of a task goes: seconds of work by stage.

The one idea: one stage at a time is running. A stage that begins inside another one pauses it, so the seconds of all
stages add up to the time that passed while any of them ran, and none is counted twice.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Profile:
    """Seconds by stage. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = 0.0

    @property
    def seconds(self) -> Mapping[str, float]:
        """By stage, in the order in which the stages began; what has ended or was paused."""
        return dict(self._seconds)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """The stage runs while the block does."""
        self._pause()
        self._running.append(name)
        self._seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self._pause()
            self._running.pop()

    def each(self, name: str, items: Iterator[T]) -> Iterator[T]:
        """The items; the stage runs while the next one is made, and not while the caller has it."""
        while True:
            with self.stage(name):
                item = next(items, _END)
            if item is _END:
                return
            yield item  # type: ignore[misc]  # mypy cannot tell the sentinel from a T
            del item  # so that it is gone while the next one is made

    def _pause(self) -> None:
        """Count what has passed for the stage that runs now, if one does."""
        now = self._clock()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now


_END = object()


def add_seconds(*profiles: Mapping[str, float]) -> dict[str, float]:
    """Profiles of several tasks as one: the seconds of each stage added up."""
    total: dict[str, float] = {}
    for profile in profiles:
        for name, seconds in profile.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
