"""A server as a child process: started, awaited until it answers, stopped or killed, and never left behind.

A guard, which is a shell, runs beside the server. It waits for the end of a pipe that only the starting process holds
open, and then stops the server. So the server ends with the process that started it, however that process ends.

The server has its own session. So Ctrl-C in a terminal reaches only the starting process, which stops servers in
order.
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
_LOG_LINES = 12  # lines of the server's log in a message
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
        """Return whether the server's process runs."""
        return self._process is not None and self._process.poll() is None

    def start(
        self, command: Sequence[str], answers: Callable[[], bool], *, user: tuple[int, int] | None = None
    ) -> None:
        """Start `command` (as `user` and group, if given), and return when it `answers`. Raises RetryableError if the
        process ends before that, or does not answer within START_TIMEOUT_S.
        """
        assert not self.is_running, self.name
        uid, gid = user or (None, None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=uid,
                group=gid,
                extra_groups=[] if user else None,
                cwd="/" if user else None,  # that user may have no access to the current folder
            )
        self._guard = subprocess.Popen(
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
        """Stop the server with its own stop signal, and wait for its end. After STOP_TIMEOUT_S it is killed."""
        self.end(self._stop_signal)

    def kill(self) -> None:
        """Send SIGKILL: data that the server has not yet written are lost."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        """Send a signal, and wait for the end of the process. Nothing happens if the server does not run."""
        if self._guard is not None:  # first: the guard must not outlive the process whose id it knows
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
    """Return `preferred` if nothing listens there, else the next free port above it.
    Without `preferred`, return any free port.
    """
    for port in range(preferred, preferred + 100) if preferred else [0]:
        with socket.socket() as listener:
            # as servers do: connections of an earlier server may still be in TIME_WAIT
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    msg = f"no port is free for a server. Stop what listens there. ports={preferred} to {preferred + 99}"
    raise RetryableError(msg)
