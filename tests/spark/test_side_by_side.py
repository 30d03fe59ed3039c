"""Actions side by side: their results, which error counts, and that none runs on after the block. Without Spark."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mixedmode.spark import side_by_side
from mixedmode.spark.side_by_side import SideBySide

TAG = "these"


class Context:
    """A SparkContext with jobs that run until they are cancelled."""

    def __init__(self) -> None:
        self.tags = threading.local()
        self.cancelled: dict[str, threading.Event] = {TAG: threading.Event()}

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - the name of Spark
        self.tags.own = tag

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        assert self.tags.own == tag
        self.tags.own = None

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        self.cancelled[tag].set()

    def endless_job(self) -> str:
        assert self.cancelled[TAG].wait(60)
        return fails("cancelled")()

    def job_that_begins_late(self) -> str:
        """A job that no cancellation reaches before it begins, which is after the first one."""
        assert self.cancelled[TAG].wait(60)
        self.cancelled[TAG].clear()
        return self.endless_job()


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(side_by_side, "InheritableThread", threading.Thread)
    return Context()


def actions(context: Context) -> SideBySide[str]:
    session: Any = SimpleNamespace(sparkContext=context)
    return SideBySide(session, TAG)


def fails(text: str) -> Callable[[], str]:
    def action() -> str:
        raise ValueError(text)

    return action


def test_actions_run_at_the_same_time_and_give_their_results(context: Context) -> None:
    both = threading.Barrier(2, timeout=60)  # passes only if both run
    with actions(context) as running:
        for name in ("a", "b"):
            running.start(name, lambda name=name: f"{name}{both.wait() * 0}")  # type: ignore[misc]
        assert sorted([running.next(), running.next()]) == [("a", "a0"), ("b", "b0")]
        assert not running.is_running
    assert not context.cancelled[TAG].is_set()
    assert context.tags.own is None


def test_an_error_cancels_the_other_actions_and_waits_for_them(context: Context) -> None:
    def run() -> None:
        with actions(context) as running:
            running.start("endless", context.endless_job)
            running.start("fails", fails("first"))
            running.next()

    with pytest.raises(ValueError, match="first"):
        run()
    assert context.cancelled[TAG].is_set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("action ")]


def test_a_job_that_begins_after_the_first_cancellation_is_cancelled_too(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "CANCEL_SECONDS", 0.001)
    with actions(context) as running:
        running.start("late", context.job_that_begins_late)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("action ")]


def test_of_several_errors_the_one_of_the_action_that_began_first_is_raised(context: Context) -> None:
    has_failed, running = threading.Event(), actions(context)

    def late() -> str:
        assert has_failed.wait(60)
        return fails("of a")()

    running.start("a", late)
    running.start("b", fails("of b"))
    end_of("b")
    has_failed.set()
    end_of("a")
    with pytest.raises(ValueError, match="of a"):
        running.next()


def end_of(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == f"action {name}":
            thread.join(60)
