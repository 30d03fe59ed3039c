"""The process of a contestant, seen from within: a reply to each command."""

import os
from pathlib import Path
from typing import Any

import pytest

from mixedmode_bench.worker import Failure, TaskNote, bind_to, serve
from mixedmode_bench.workload import Size
from tests.bench.toys import TINY, WORKLOAD, Plain

NOWHERE = Path("nowhere")


class Noted(Plain):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self, scratch: Path, cores: int) -> None:
        self.told.append(f"start in {scratch} with {cores}")

    def close(self) -> None:
        self.told.append("close")


class OtherEnd:
    """Sends commands, keeps the replies, and is then gone."""

    def __init__(self, *commands: tuple[Any, ...]) -> None:
        self._commands = list(commands)
        self.replies: list[Any] = []

    def recv(self) -> tuple[Any, ...]:
        if not self._commands:
            raise EOFError
        return self._commands.pop(0)

    def send(self, reply: Any) -> None:
        self.replies.append(reply)


def served(*commands: tuple[Any, ...]) -> tuple[list[str], list[Any]]:
    contestant, other = Noted(), OtherEnd(*commands)
    serve(contestant, 2, other)  # type: ignore[arg-type]  # it receives and sends as a connection
    return contestant.told, other.replies


def test_each_command_has_one_reply_and_close_is_the_last() -> None:
    told, replies = served(("start", "there"), ("close",), ("start", "there"))
    assert told == ["start in there with 2", "close"]
    assert replies == [None, None]


def test_when_nobody_is_there_any_more_it_closes_by_itself() -> None:
    assert served(("start", "there")) == (["start in there with 2", "close"], [None])


def test_an_error_is_a_reply_and_the_next_command_is_done() -> None:
    note = TaskNote(WORKLOAD, Size(100, 7), NOWHERE, NOWHERE)
    told, replies = served(("prepare", note), ("start", "there"), ("close",))
    assert replies == [Failure("AssertionError: "), None, None]
    assert told == ["start in there with 2", "close"]


def test_a_task_is_sent_by_the_name_of_its_workload() -> None:
    task = TaskNote(WORKLOAD, Size(10, 3), NOWHERE, NOWHERE, (Path("b"), Path("a"))).task()
    assert (task.workload, task.size, task.waiting) == (TINY, Size(10, 3), (Path("b"), Path("a")))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no processes")
def test_all_are_bound_to_the_same_cores() -> None:
    before = os.sched_getaffinity(0)
    try:
        bind_to(1)
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)
