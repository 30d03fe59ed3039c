"""Spark's jobs of an epoch: their descriptions in Spark's user interface, and how far they have come.

Spark passes description and tag on through properties of the thread that starts a job. Spark's status store, which its
user interface reads too, exists also where the user interface is off.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = [
    "CANCEL_SECONDS",
    "MAP_SIDE",
    "SparkJob",
    "SparkStage",
    "cancel",
    "described",
    "described_as_part",
    "jobs_with_tag",
    "tagged",
]

_DESCRIPTION = "spark.job.description"
#: the end of the description of a job that is the map side of a step, where its subtasks are another job
MAP_SIDE = ", map side"
#: between two calls of `cancel`, as the thread that starts the jobs may be between two of them
CANCEL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class SparkStage:
    """A stage of a job, and the figures of its tasks so far. Before it begins, it has no tasks."""

    tasks: int = 0
    done: int = 0
    is_complete: bool = False
    input_bytes: int = 0
    input_records: int = 0


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job: its description, and its stages, of which each one needs the one before. The last one returns the result.

    Stages that Spark skips, because it has their output, are among them; they never begin.
    """

    description: str
    stages: tuple[SparkStage, ...]


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Give the jobs that this thread starts in the block a description in Spark's user interface."""
    context = session.sparkContext
    before: Any = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        with suppress(PySparkException, Py4JError):  # Spark itself may have ended
            context.setJobDescription(before)


@contextmanager
def described_as_part(session: SparkSession, part: str) -> Iterator[None]:
    """Append the name of a part to the description of the jobs that this thread starts in the block."""
    before: Any = session.sparkContext.getLocalProperty(_DESCRIPTION)
    with described(session, f"{before or ''}{part}"):
        yield


@contextmanager
def tagged(session: SparkSession, tag: str) -> Iterator[None]:
    """Give the jobs that this thread starts in the block a tag, by which they are found.

    If the block is interrupted, as by Ctrl-C in a notebook, they are cancelled: Spark would go on with their tasks.
    """
    context = session.sparkContext
    context.addJobTag(tag)
    try:
        yield
    except Exception:
        raise  # Spark, or the caller, has ended them
    except BaseException:
        cancel(session, tag)
        raise
    finally:
        with suppress(PySparkException, Py4JError):
            context.removeJobTag(tag)


def cancel(session: SparkSession, tag: str) -> None:
    """Cancel the jobs with a tag that run now. Call it every CANCEL_SECONDS until the thread that starts them ends."""
    with suppress(PySparkException, Py4JError):
        session.sparkContext.cancelJobsWithTag(tag)


def jobs_with_tag(session: SparkSession, tag: str) -> list[SparkJob]:
    """Return the jobs with a tag, in the order in which they began. Raise Py4JError if Spark has ended."""
    scala: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no public name for the status store
    store = scala.statusStore()
    return [_job(store, number) for number in sorted(scala.statusTracker().getJobIdsForTag(tag))]


def _job(store: Any, number: int) -> SparkJob:
    job = store.job(number)
    description, stages = job.description(), job.stageIds()
    numbers = sorted(stages.apply(index) for index in range(stages.size()))
    return SparkJob(
        description.get() if description.isDefined() else "", tuple(_stage(store, number) for number in numbers)
    )


def _stage(store: Any, number: int) -> SparkStage:
    try:
        stage = store.lastStageAttempt(number)
    except Py4JJavaError:  # it is not submitted
        return SparkStage()
    status = stage.status().name()
    if status in ("PENDING", "SKIPPED"):
        return SparkStage()
    return SparkStage(
        tasks=stage.numTasks(),
        done=stage.numCompleteTasks(),
        is_complete=status == "COMPLETE",
        input_bytes=stage.inputBytes(),
        input_records=stage.inputRecords(),
    )
