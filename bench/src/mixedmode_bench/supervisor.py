"""The other end of a worker: starts the process, tells it what to do, and says what a person has to know if it fails.

Invariants (tests/bench/test_supervisor.py):
  I1  no command waits longer than its limit
  I2  when a Worker has ended, so has everything that its process started
"""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

import psutil

from mixedmode.errors import RetryableError
from mixedmode_bench.contestant import Outcome
from mixedmode_bench.worker import Failure, TaskNote, Verb, main

#: seconds after which a command is taken for stuck; a run is stuck if it takes an hour
LIMITS: Mapping[Verb, float] = {"start": 300, "prepare": 1_800, "run": 3_600, "answer": 1_800, "close": 30}

_TAIL_LINES = 20
_LOOK_EVERY_S = 0.01
_END_S = 10  # how long a process may take to be gone when it was killed


class Worker:
    """One contestant's process. `scratch` is its own; its log is there, and its temporary files."""

    def __init__(self, name: str, scratch: Path, *, cores: int, limits: Mapping[Verb, float] = LIMITS) -> None:
        self.name = name
        self._scratch = scratch
        self._limits = limits
        temporary = scratch / "tmp"
        temporary.mkdir(parents=True)
        self._log = scratch / "log.txt"
        self._log.touch()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(name, cores, self._log, temporary, theirs))
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Of the process; it is the root of all that it starts."""
        assert self._process.pid is not None, "it is started"
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def start(self) -> None:
        """Start what the contestant needs."""
        self._do("start", self._scratch)

    def prepare(self, note: TaskNote) -> None:
        """Prepare the data; not measured."""
        self._do("prepare", note)

    def run(self, note: TaskNote) -> Outcome:
        """The measured part."""
        outcome = self._do("run", note)
        assert outcome is not None, "a run has an outcome"
        return outcome

    def answer(self, note: TaskNote, file: Path) -> None:
        """Write the answer of the last run, as Parquet."""
        self._do("answer", note, file)

    def close(self) -> None:
        """Let the contestant end what it began, then end the process."""
        self._do("close")
        self.end()

    def end(self) -> None:
        """End the process and all that it started, whatever it is doing. Again does nothing."""
        if not self._connection.closed:
            self._connection.close()
            _kill(self._process)

    def _do(self, verb: Verb, *arguments: Any) -> Outcome | None:
        """Raises RetryableError if it fails, dies, or does not come to an end."""
        with contextlib.suppress(BrokenPipeError):  # it is dead: receiving says so
            self._connection.send((verb, *arguments))
        if not self._connection.poll(self._limits[verb]):
            msg = f"{self.name} was not done with `{verb}` after {self._limits[verb]:g} s, and was ended."
            raise RetryableError(self._message(msg))
        try:
            reply: Outcome | Failure | None = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise RetryableError(self._message(self._death(verb))) from None
        if isinstance(reply, Failure):
            raise RetryableError(self._message(f"{self.name} failed at `{verb}`: {reply.text}."))
        return reply

    def _death(self, verb: Verb) -> str:
        self._process.join(_END_S)
        code = self._process.exitcode
        if code is None:
            return f"the process of {self.name} hung up in `{verb}`."
        text = f"the process of {self.name} ended in `{verb}`, with exit code {code}."
        if code == -signal.SIGKILL:
            text += " The system may have run out of memory: name fewer with --peers, or less with --events."
        return text

    def _message(self, what: str) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:]) or "  | (nothing)"
        return f"{what} The benchmark ends here. The last that it printed:\n{tail}"


def _kill(process: BaseProcess) -> None:
    """Kill the process and all below it, also those that have made a group of their own, as Spark's workers have."""
    below: list[psutil.Process] = []
    assert process.pid is not None, "it is started"
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # there is no such group yet, or any more
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for child in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.join(_END_S)
    deadline = time.monotonic() + _END_S
    while any(_is_alive(child) for child in below) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process still runs. A process that nobody waits for stays a zombie, and does nothing."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
