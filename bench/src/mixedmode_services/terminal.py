"""Ctrl-C for this process only: a program that runs it, such as make or tox, is not interrupted.

A terminal sends Ctrl-C to every process of its foreground group. Then make and tox end with exit code 130 and a
message about an interrupt, although this process stops in order. Therefore this process moves to its own group, and
makes it the foreground group.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_TERMINAL = "/dev/tty"


@contextmanager
def in_foreground() -> Iterator[None]:
    """Make this process's own group the foreground group for the block.
    Does nothing without a terminal, or in the background.
    """
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
            signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # no shell would notice Ctrl-Z, nor take the terminal
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
