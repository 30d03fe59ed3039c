"""Work of the driver beside an epoch: when it runs, and whose error counts."""

import threading

import pytest

from mixedmode.driver.aside import Aside
from mixedmode.errors import FencedError, InvalidJobError, RetryableError

BOTH = pytest.mark.parametrize("is_remote", [False, True], ids=["folder", "object store"])
WAIT_SECONDS = 10


def fails_with(error: Exception) -> None:
    raise error


@BOTH
def test_work_beside_a_block_has_ended_when_the_block_ends(is_remote: bool) -> None:
    done: list[str] = []
    with Aside(is_remote=is_remote) as aside:
        with aside.beside(lambda: done.append("work")):
            done.append("block")
        assert sorted(done) == ["block", "work"]


def test_work_runs_at_the_same_time_as_the_block_and_as_what_was_left_for_later() -> None:
    begun, ends = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert ends.wait(WAIT_SECONDS)

    with Aside(is_remote=True) as aside:
        aside.after(work)
        assert begun.wait(WAIT_SECONDS), "it goes on"
        begun.clear()
        with aside.beside(work):
            assert begun.wait(WAIT_SECONDS), "both go on"
            ends.set()
        aside.settle()


@BOTH
def test_an_error_of_the_work_is_raised(is_remote: bool) -> None:
    error = RetryableError("store")
    with (
        Aside(is_remote=is_remote) as aside,
        pytest.raises(RetryableError, match="store"),
        aside.beside(lambda: fails_with(error)),
    ):
        pass


@pytest.mark.parametrize(
    ("of_work", "counts"),
    [(RetryableError("store"), InvalidJobError), (FencedError("newer start"), FencedError), (None, InvalidJobError)],
)
def test_of_two_errors_that_of_the_block_counts_unless_there_is_a_newer_start(
    of_work: Exception | None, counts: type[Exception]
) -> None:
    def work() -> None:
        if of_work is not None:
            raise of_work

    with Aside(is_remote=True) as aside, pytest.raises(counts), aside.beside(work):
        raise InvalidJobError


def test_an_error_of_work_that_nobody_waited_for_is_raised_at_the_end() -> None:
    with pytest.raises(RetryableError, match="drop"), Aside(is_remote=True) as aside:
        aside.after(lambda: fails_with(RetryableError("drop")))


def test_an_error_of_work_for_later_is_raised_once() -> None:
    with Aside(is_remote=True) as aside:
        aside.after(lambda: fails_with(RetryableError("drop")))
        with pytest.raises(RetryableError, match="drop"):
            aside.settle()
        aside.settle()


def test_work_for_later_waits_for_the_work_before_it() -> None:
    begun, ends, done = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        assert ends.wait(WAIT_SECONDS)
        done.append("first")

    with Aside(is_remote=True) as aside:
        aside.after(first)
        assert begun.wait(WAIT_SECONDS)
        ends.set()
        aside.after(lambda: done.append("second"))
        aside.settle()
    assert done == ["first", "second"]


def test_an_error_of_the_run_counts_more_than_one_of_the_work() -> None:
    def run() -> None:
        with Aside(is_remote=True) as aside:
            aside.after(lambda: fails_with(RetryableError("drop")))
            raise InvalidJobError

    with pytest.raises(InvalidJobError):
        run()
