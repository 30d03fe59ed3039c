"""The process of a contestant, seen from within: commands as lines, a reply for each."""

import io
import os
from pathlib import Path

import msgspec
import pytest

from mixedmode_bench.worker import Command, Reply, TaskNote, bind_to, serve
from mixedmode_bench.workload import Size
from tests.bench.toys import TINY, WORKLOAD, Plain


class Noted(Plain):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self, scratch: Path, cores: int) -> None:
        self.told.append(f"start in {scratch} with {cores}")

    def close(self) -> None:
        self.told.append("close")


def served(*commands: Command) -> tuple[list[str], list[Reply]]:
    contestant, replies = Noted(), io.BytesIO()
    serve(contestant, 2, io.BytesIO(b"".join(msgspec.json.encode(c) + b"\n" for c in commands)), replies)
    return contestant.told, [msgspec.json.decode(line, type=Reply) for line in replies.getvalue().splitlines()]


def test_each_command_has_one_reply_and_close_is_the_last() -> None:
    told, replies = served(Command("start", scratch="there"), Command("close"), Command("start"))
    assert told == ["start in there with 2", "close"]
    assert replies == [Reply(), Reply()]


def test_when_nobody_is_there_any_more_it_closes_by_itself() -> None:
    assert served(Command("start", scratch="there")) == (["start in there with 2", "close"], [Reply()])


def test_an_error_is_a_reply_and_the_next_command_is_done() -> None:
    note = TaskNote(WORKLOAD, 100, 7, "nowhere", "nowhere")
    told, replies = served(Command("prepare", note), Command("start", scratch="there"), Command("close"))
    assert replies == [Reply(error="AssertionError: "), Reply(), Reply()]
    assert told == ["start in there with 2", "close"]


def test_a_task_is_sent_by_names() -> None:
    task = TaskNote(WORKLOAD, 10, 3, "data", "work", ("b", "a")).task()
    assert (task.workload, task.size, task.waiting) == (TINY, Size(10, 3), (Path("b"), Path("a")))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no processes")
def test_all_are_bound_to_the_same_cores() -> None:
    before = os.sched_getaffinity(0)
    try:
        bind_to(1)
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)
