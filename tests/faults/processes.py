"""The command line in a process of its own, to be killed: started in a session of its own, and ended with all of it.

A test kills only what it started: the driver by its process id, and what is left of its session in the end.
"""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from mixedmode.crash_points import CRASH_AT, CrashPoint
from tests.java import JAVA_OPTIONS

SECONDS_MAX = 120  # for a run that takes 6 to 10 s on a machine that does nothing else
_LOOK_AGAIN_SECONDS = 0.02


class Driver:
    """One run of the command line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output = ""

    def send(self, signal_number: int) -> None:
        """Send a signal to the driver, not to its Spark."""
        os.kill(self.process.pid, signal_number)

    def send_to_group(self, signal_number: int) -> None:
        """Send a signal to the driver's process group, as a terminal, `timeout` or a supervisor does."""
        os.killpg(self.process.pid, signal_number)

    def session(self) -> list[psutil.Process]:
        """All processes of the run: the driver, Spark's Java and its Python workers."""
        return _session(self.process.pid)

    def read_until(self, text: str) -> None:
        """Wait until standard output holds `text`."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while text not in self.output:
                left = deadline - time.monotonic()
                assert left > 0, f"no {text!r} in time: {self.output}"
                if selector.select(left):
                    line = os.read(self.process.stdout.fileno(), 65_536).decode()
                    assert line, f"the run ended without {text!r}: {self.output} {self.process.communicate()[1]}"
                    self.output += line

    def wait(self) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, once the run and its Spark have ended by themselves."""
        output, errors = self.process.communicate(timeout=SECONDS_MAX)
        _, left = psutil.wait_procs(self.session(), timeout=SECONDS_MAX)
        assert not left, f"processes that do not end: {left}"
        return self.process.returncode, self.output + output, errors


@contextmanager
def running(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Iterator[Driver]:
    """`mixedmode <arguments>`; whatever is left of it at the end of the block is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mixedmode", *map(str, arguments)],
        env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS, "COLUMNS": "200", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Driver(process)
    finally:
        left = _session(process.pid)
        for member in left:
            with _gone_is_fine():
                member.kill()
        psutil.wait_procs(left, timeout=SECONDS_MAX)
        process.communicate()


def finished(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `mixedmode <arguments>`."""
    with running(*arguments, environment=environment) as driver:
        return driver.wait()


def killed_at(job_file: Path, point: CrashPoint, epoch: int) -> None:
    """Run a job until SIGKILL meets it at this point of this epoch."""
    code, output, errors = finished("run", job_file, "--until-idle", environment={CRASH_AT: f"{point}@{epoch}"})
    assert code == -signal.SIGKILL, f"the run was not killed at {point}@{epoch}: {code}\n{output}\n{errors}"


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Look until something is so."""
    deadline, looking = time.monotonic() + SECONDS_MAX, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, f"not in time: {what}"
        looking.wait(_LOOK_AGAIN_SECONDS)


def _session(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with _gone_is_fine():
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
        yield
