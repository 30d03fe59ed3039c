"""Ctrl-C and SIGTERM: the first one asks for a stop after the epoch under way, the second one ends the process."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

__all__ = ["ABORTED", "stop_on_signals"]

ABORTED = 130
#: `timeout` sends SIGTERM to its child and then to the group of both, so the child gets two; nobody types so fast
_SAME_REQUEST_SECONDS = 0.1


def stop_on_signals(
    text: str = "stopping: finishing the epoch under way (again to stop at once)",
) -> threading.Event:
    """Return an event that the first Ctrl-C or SIGTERM sets; the second one ends the process at once.

    text: printed at the first one. A signal that follows another one of its kind at once belongs to the same request.
    """
    stop = threading.Event()
    first, first_at = 0, 0.0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal first, first_at
        del frame
        if not stop.is_set():
            first, first_at = number, time.monotonic()
            stop.set()
            _tell(text)
            return
        if number == first and time.monotonic() - first_at < _SAME_REQUEST_SECONDS:
            return
        _tell("stopped at once; the epoch under way is run again at the next start")
        os._exit(ABORTED)

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop


def _tell(text: str) -> None:
    with suppress(OSError):  # the signal counts, also if nobody reads standard error any more
        sys.stderr.write(f"\n{text}\n")
        sys.stderr.flush()
