"""An event loop whose clock jumps to the next moment at which something happens, so that no test waits."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import override

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Instead of waiting, it moves the clock."""

    now = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        assert found or timeout is not None, "everything waits, and nothing will ever happen"
        if not found:
            self.now += timeout or 0
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with such a clock, which begins at 0."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    @override
    def time(self) -> float:
        return self._clock.now


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine in such a loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
