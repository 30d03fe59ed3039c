"""The process of one contestant: `python -m mixedmode_bench.worker NAME CORES REPLY_FD`.

Commands come as lines of JSON on stdin, and each is answered by one line on a descriptor of its own,
since whoever takes part may print on stdout what it likes. The process ends when there are no more commands, so also
when the one that measures is gone.
"""

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import msgspec
import pyarrow.parquet as pq

from mixedmode_bench.contestant import Contestant, Outcome, Task
from mixedmode_bench.contestants import find_workload, make_contestant
from mixedmode_bench.workload import Size

Verb = Literal["start", "prepare", "run", "answer", "close"]


@dataclass(frozen=True, slots=True)
class TaskNote:
    """A Task as it is sent: the workload by its name, paths as text."""

    workload: str
    events: int
    keys: int
    data: str
    work: str
    waiting: tuple[str, ...] = ()

    def task(self) -> Task:
        """The task."""
        size = Size(self.events, self.keys)
        waiting = tuple(Path(file) for file in self.waiting)
        return Task(find_workload(self.workload), size, Path(self.data), Path(self.work), waiting)


@dataclass(frozen=True, slots=True)
class Command:
    """A command to a worker. `scratch` belongs to start; `file`, the Parquet file of an answer, belongs to answer."""

    do: Verb
    task: TaskNote | None = None
    scratch: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """That it was done, or the error that came of it. The stack trace stands in the log."""

    error: str | None = None
    outcome: Outcome | None = None


def serve(contestant: Contestant, cores: int, commands: IO[bytes], replies: IO[bytes]) -> None:
    """Do what comes until the last command, which is close, or nothing any more."""
    decoder = msgspec.json.Decoder(Command)
    for line in commands:
        command = decoder.decode(line)
        try:
            reply = Reply(outcome=_done(contestant, cores, command))
        except Exception as error:  # noqa: BLE001  whatever a contestant raises is for the one that measures
            traceback.print_exc()
            reply = Reply(error=f"{type(error).__name__}: {error}")
        sys.stdout.flush()  # into the log: after the reply, this process may be ended at any time
        replies.write(msgspec.json.encode(reply) + b"\n")
        replies.flush()
        if command.do == "close":
            return
    contestant.close()


def _done(contestant: Contestant, cores: int, command: Command) -> Outcome | None:
    if command.do == "start":
        contestant.start(Path(command.scratch), cores)
    elif command.do == "close":
        contestant.close()
    else:
        assert command.task is not None, command
        task = command.task.task()
        if command.do == "run":
            outcome = contestant.run(task)
            contestant.free_memory()
            return outcome
        if command.do == "prepare":
            contestant.prepare(task)
        else:
            pq.write_table(contestant.answer(task), command.file)
    return None


def bind_to(cores: int) -> None:
    """This process, and all that it starts, to the first of the cores that it may use; not all systems can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def main(name: str, cores: int, reply_fd: int) -> None:
    """Serve. What this process starts gets neither the commands nor the descriptor of the answers."""
    bind_to(cores)
    os.set_inheritable(reply_fd, False)
    commands = os.fdopen(os.dup(0), "rb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with commands, os.fdopen(reply_fd, "wb") as replies:
        serve(make_contestant(name), cores, commands, replies)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
