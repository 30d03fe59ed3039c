"""Ctrl-C for this process alone: a program in front of it, such as make or tox, is not interrupted.

A terminal sends Ctrl-C to every process of its foreground group. make and tox then end with exit code 130 and a message
about an interrupt, although what they ran stopped in order. A process in a group of its own, which is made the
foreground group, is the only one to be told.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_TERMINAL = "/dev/tty"


@contextmanager
def in_foreground() -> Iterator[None]:
    """Take the terminal, and hand it back at the end. Does nothing without a terminal, or in the background."""
    before = os.getpgrp()
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR)
    except OSError:
        yield
        return
    try:
        is_taken = os.tcgetpgrp(terminal) == before != os.getpid()
        if is_taken:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # after Ctrl-Z no shell would notice, nor take the terminal
            _give(terminal, os.getpgrp())
        try:
            yield
        finally:
            if is_taken:
                _give(terminal, before)
    finally:
        os.close(terminal)


def _give(terminal: int, group: int) -> None:
    """Make `group` the foreground group. A process in the background may do so only if it ignores SIGTTOU."""
    handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with suppress(ProcessLookupError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, handler)
