"""A server as a child process: started, waited for until it answers, stopped or killed, and never left behind.

The one idea: a server belongs to the process that started it. Beside it runs a guard, a shell that waits for the end of
a pipe which only its starter holds open, and then stops the server. So it ends with its starter however that ends.

The server has a session of its own: Ctrl-C in a terminal is for its starter, which stops servers in order.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mixedmode.errors import RetryableError

__all__ = ["LOOPBACK", "Server", "free_port"]

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_POLL_S = 0.05
_LOG_LINES = 12  # of the server's, in a message
#: waits for the end of its input; then sends a signal ($0) to a process ($1)
_GUARD = 'read -r _; kill -s "$0" "$1"'


class Server:
    """One server process at a time; it can be started again after it has ended."""

    def __init__(self, name: str, *, log: Path, stop_signal: signal.Signals) -> None:
        self.name = name
        self.log = log
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(
        self, command: Sequence[str], answers: Callable[[], bool], *, user: tuple[int, int] | None = None
    ) -> None:
        """Start `command` (as `user` and group, if given), and return when it `answers`. Raises RetryableError if it
        ends before, or does not answer in START_TIMEOUT_S.
        """
        assert not self.is_running, self.name
        uid, gid = user or (None, None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  a server of this machine
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=uid,
                group=gid,
                extra_groups=[] if user else None,
                cwd="/" if user else None,  # where this process is may be closed to that user
            )
        self._guard = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, self._stop_signal.name.removeprefix("SIG"), str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        until = time.monotonic() + START_TIMEOUT_S
        while not answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self._did_not_start()
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop it in its own way, and wait for its end. One that does not end in STOP_TIMEOUT_S is killed."""
        self.end(self._stop_signal)

    def kill(self) -> None:
        """Send it SIGKILL: what it had not yet written is lost."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        """Send it a signal, and wait for its end. Nothing happens if it does not run."""
        if self._guard is not None:  # first: it must not outlive the process whose number it knows
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _did_not_start(self) -> None:
        code = self._process.poll() if self._process is not None else None
        self.kill()
        said = " | ".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
        what = "did not answer in time" if code is None else "ended while it was starting"
        msg = f"{self.name} {what}. Its log says why: log={self.log}, exit_code={code}, last lines: {said}"
        raise RetryableError(msg)


def free_port(preferred: int = 0) -> int:
    """`preferred` if nothing listens there, else the next one above that is free; without one, any that is free."""
    for port in range(preferred, preferred + 100) if preferred else [0]:
        with socket.socket() as listener:
            # as servers do: an earlier one's connections may still be fading
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    msg = f"no port is free for a server. Stop what listens there. ports={preferred} to {preferred + 99}"
    raise RetryableError(msg)
