"""The process of one contestant, seen from within: it does what the process that measures sends, and replies to each.

The process ends when there are no more commands, so also when the one that measures is gone.
"""

import os
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from mixedmode_bench.contestant import Contestant, Outcome, Task
from mixedmode_bench.contestants import find_workload, make_contestant
from mixedmode_bench.workload import Size

Verb = Literal["start", "prepare", "run", "answer", "close"]


@dataclass(frozen=True, slots=True)
class TaskNote:
    """A Task as it is sent: with the workload by its name, since functions cannot be sent."""

    workload: str
    size: Size
    data: Path
    work: Path
    waiting: tuple[Path, ...] = ()

    def task(self) -> Task:
        """Return the task."""
        return Task(find_workload(self.workload), self.size, self.data, self.work, self.waiting)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reply to a command that failed. The stack trace is in the log."""

    text: str


def serve(contestant: Contestant, cores: int, commands: "Connection[Any, Any]") -> None:
    """Do what comes until the last command, which is close, or until the other end is gone."""
    while True:
        try:
            command = commands.recv()
        except EOFError:
            contestant.close()
            return
        try:
            reply: Outcome | Failure | None = _done(contestant, cores, command)
        except Exception as error:  # noqa: BLE001  whatever a contestant raises is for the process that measures
            traceback.print_exc()
            reply = Failure(f"{type(error).__name__}: {error}")
        sys.stdout.flush()  # into the log: after the reply, this process may be ended at any time
        commands.send(reply)
        if command[0] == "close":
            return


def _done(contestant: Contestant, cores: int, command: tuple[Any, ...]) -> Outcome | None:
    outcome = None
    match command:
        case ("start", scratch):
            contestant.start(scratch, cores)
        case ("prepare", note):
            contestant.prepare(note.task())
        case ("run", note):
            outcome = contestant.run(note.task())
            contestant.free_memory()
        case ("answer", note, file):
            pq.write_table(contestant.answer(note.task()), file)
        case _:
            contestant.close()
    return outcome


def bind_to(cores: int) -> None:
    """Bind this process, and all that it starts, to the first of the cores that it may use; not all systems can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def main(name: str, cores: int, log: Path, temporary: Path, commands: "Connection[Any, Any]") -> None:
    """Serve. All that this process and its children print is in the log; their temporary files are in a folder.

    Ctrl-C is for the process that measures, which then ends this one.
    """
    os.setsid()
    with log.open("wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    java = f'{os.environ.get("JDK_JAVA_OPTIONS", "")} "-Djava.io.tmpdir={temporary}"'
    os.environ |= {"TMPDIR": str(temporary), "JDK_JAVA_OPTIONS": java.strip()}
    bind_to(cores)
    serve(make_contestant(name), cores, commands)
