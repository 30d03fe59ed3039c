"""The progress of a run where standard output is not a terminal: in a log, in CI.

Each change of phase has a line with the time. While nothing changes, more lines follow: every 10 s while an epoch is
under way. While the job waits, the intervals double up to 10 minutes, so that a quiet job does not fill its log.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mixedmode.cli.consoles import utc_text
from mixedmode.clock import Clock

_FIRST_SECONDS = 10.0
_WAITING_SECONDS_MAX = 600.0
_TICK_SECONDS = 1.0


class StatusLines:
    """Prints with `say`. The job's thread calls `change`; a separate thread calls `tick`."""

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._lock = threading.Lock()
        self._text = ""
        self._is_waiting = False
        self._began = self._last = clock.seconds()
        self._interval = _FIRST_SECONDS

    def change(self, text: str, *, is_waiting: bool = False, is_quiet: bool = False) -> None:
        """Begin a phase. A quiet phase, such as an epoch of a second, has a line only once it takes long."""
        with self._lock:
            self._text, self._is_waiting = text, is_waiting
            self._began = self._last = self._clock.seconds()
            self._interval = _FIRST_SECONDS
            if not is_quiet:
                self._print(text)

    def describe(self, text: str) -> None:
        """Change the text of the phase that is under way. It has a line when the next one is due."""
        with self._lock:
            self._text = text

    def tick(self) -> None:
        """Print a line if the interval has passed."""
        with self._lock:
            now = self._clock.seconds()
            if not self._text or now - self._last < self._interval:
                return
            self._last = now
            if self._is_waiting:
                self._interval = min(2 * self._interval, _WAITING_SECONDS_MAX)
            self._print(f"{self._text}, for {now - self._began:.0f} s")

    def _print(self, text: str) -> None:
        self._say(f"{utc_text(self._clock.now_ms())}  {text}")


@contextmanager
def ticking(lines: StatusLines) -> Iterator[None]:
    """Call `tick` about once a second during the `with` block, from a separate thread."""
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(_TICK_SECONDS):
            lines.tick()

    thread = threading.Thread(target=tick, name="status-lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
