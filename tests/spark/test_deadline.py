"""The time limit of an epoch: its jobs are cancelled until it ends, and its error says so. Without Spark."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from mixedmode.errors import RetryableError
from mixedmode.spark import deadline as module
from mixedmode.spark.deadline import deadline


class Context:
    """A SparkContext that notes its tags, and counts cancellations."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.cancelled = threading.Semaphore(0)

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - the name of Spark
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        assert tag == "epoch"
        self.cancelled.release()


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.001)
    return Context()


def run(context: Context, timeout_ms: int | None, *, cancellations: int, error: Exception | None = None) -> None:
    """Run a block that ends, or fails, after so many cancellations."""
    session: Any = SimpleNamespace(sparkContext=context)
    with deadline(session, timeout_ms, tag="epoch"):
        assert context.tags == (set() if timeout_ms is None else {"epoch"})
        for _ in range(cancellations):
            assert context.cancelled.acquire(timeout=60)
        if error is not None:
            raise error


def test_a_block_within_its_limit_is_left_alone(context: Context) -> None:
    run(context, None, cancellations=0)
    run(context, 3_600_000, cancellations=0)
    with pytest.raises(PySparkException, match="its own"):
        run(context, 3_600_000, cancellations=0, error=PySparkException("its own"))
    assert not context.cancelled.acquire(blocking=False)
    assert not context.tags


def test_a_job_that_begins_after_the_limit_is_cancelled_too(context: Context) -> None:
    with pytest.raises(RetryableError, match=r"longer than execution\.checkpointing\.timeout.*timeout=1ms"):
        run(context, 1, cancellations=3, error=PySparkException("cancelled"))
    assert not context.tags


def test_a_block_that_comes_to_its_end_after_the_limit_fails_all_the_same(context: Context) -> None:
    with pytest.raises(RetryableError, match="nothing of it is committed"):
        run(context, 1, cancellations=1)


def test_another_error_after_the_limit_is_told_as_it_is(context: Context) -> None:
    with pytest.raises(ValueError, match="of its own"):
        run(context, 1, cancellations=1, error=ValueError("of its own"))
    assert "time limit of an epoch" not in [thread.name for thread in threading.enumerate()]
