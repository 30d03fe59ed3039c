"""Spark's jobs by their tag: those of a block that is interrupted are cancelled. Without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from mixedmode.spark.jobs import tagged


class Context:
    """A SparkContext that notes its tags, and the tags whose jobs were cancelled."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.cancelled: list[str] = []

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - the name of Spark
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        self.cancelled.append(tag)


def run(context: Context, error: BaseException | None = None) -> None:
    session: Any = SimpleNamespace(sparkContext=context)
    with tagged(session, "epoch"):
        assert context.tags == {"epoch"}
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_the_jobs_of_a_block_that_is_interrupted_are_cancelled(error: BaseException) -> None:
    context = Context()
    with pytest.raises(type(error)):
        run(context, error)
    assert context.cancelled == ["epoch"]
    assert not context.tags


def test_the_jobs_of_a_block_that_ends_or_fails_are_left_alone() -> None:
    context = Context()
    run(context)
    with pytest.raises(ValueError, match="own"):
        run(context, ValueError("own"))
    assert not context.cancelled
    assert not context.tags
