"""The other end of a worker: starts the process, tells it what to do, and says what a person has to know if it fails.

Invariants (tests/bench/test_supervisor.py):
  I1  no command waits longer than its limit
  I2  when a Worker has ended, so has everything that its process started
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec
import psutil

from mixedmode.errors import RetryableError
from mixedmode_bench.contestant import Outcome
from mixedmode_bench.worker import Command, Reply, TaskNote, Verb

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
        self._replies, theirs = os.pipe()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mixedmode_bench.worker", name, str(cores), str(theirs)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[theirs],
                env=_environment(temporary),
                start_new_session=True,  # Ctrl-C is for the process that measures, which then ends this one
            )
        os.close(theirs)
        self._buffer = b""

    @property
    def pid(self) -> int:
        """Of the process; it is the root of all that it starts."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def start(self) -> None:
        """Start what the contestant needs."""
        self._do(Command("start", scratch=str(self._scratch)))

    def prepare(self, note: TaskNote) -> None:
        """Prepare the data; not measured."""
        self._do(Command("prepare", note))

    def run(self, note: TaskNote) -> Outcome:
        """The measured part."""
        outcome = self._do(Command("run", note)).outcome
        assert outcome is not None, "a run has an outcome"
        return outcome

    def answer(self, note: TaskNote, file: Path) -> None:
        """Write the answer of the last run, as Parquet."""
        self._do(Command("answer", note, file=str(file)))

    def close(self) -> None:
        """Let the contestant end what it began, then end the process."""
        self._do(Command("close"))
        self.end()

    def end(self) -> None:
        """End the process and all that it started, whatever it is doing. Again does nothing."""
        if self._replies < 0:
            return
        os.close(self._replies)
        self._replies = -1
        _kill(self._process)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _do(self, command: Command) -> Reply:
        """Raises RetryableError if it fails, dies, or does not come to an end."""
        assert self._process.stdin is not None, "stdin is a pipe"
        with contextlib.suppress(BrokenPipeError):  # it is dead: reading says so
            self._process.stdin.write(msgspec.json.encode(command) + b"\n")
            self._process.stdin.flush()
        line = self._line(command.do)
        reply = msgspec.json.decode(line, type=Reply)
        if reply.error is not None:
            raise RetryableError(self._message(f"{self.name} failed at `{command.do}`: {reply.error}."))
        return reply

    def _line(self, verb: Verb) -> bytes:
        deadline = time.monotonic() + self._limits[verb]
        while b"\n" not in self._buffer:
            if not select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))[0]:
                msg = f"{self.name} was not done with `{verb}` after {self._limits[verb]:g} s, and was ended."
                raise RetryableError(self._message(msg))
            more = os.read(self._replies, 65_536)
            if not more:
                raise RetryableError(self._message(self._death(verb)))
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _death(self, verb: Verb) -> str:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return f"the process of {self.name} hung up in `{verb}`."
        text = f"the process of {self.name} ended in `{verb}`, with exit code {code}."
        if code == -signal.SIGKILL:
            text += " The system may have run out of memory: name fewer with --peers, or less with --events."
        return text

    def _message(self, what: str) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:]) or "  | (nothing)"
        return f"{what} The benchmark ends here. The last that it printed:\n{tail}"


def _environment(temporary: Path) -> dict[str, str]:
    """That of this process, but with all temporary files in this folder, those of Java included."""
    java = f'{os.environ.get("JDK_JAVA_OPTIONS", "")} "-Djava.io.tmpdir={temporary}"'
    return {**os.environ, "TMPDIR": str(temporary), "JDK_JAVA_OPTIONS": java.strip()}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The process and all below it, also those that have made a group of their own, as Spark's Python workers have."""
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # there is no such group any more
        os.killpg(process.pid, signal.SIGKILL)
    for child in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait(_END_S)
    deadline = time.monotonic() + _END_S
    while any(_is_alive(child) for child in below) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process still runs. A process that nobody waits for stays a zombie, and does nothing."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
