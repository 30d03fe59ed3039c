"""Limits the duration of an epoch: after the limit, Spark's jobs of the epoch are cancelled.

The thread has a tag of SparkContext while the epoch runs, which marks the epoch's jobs. (Tags of a session do not reach
the jobs of a streaming query's thread.) The driver's own work, such as writing a manifest, is not interrupted;
otherwise it would be unknown if the epoch is committed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.durations import format_duration_ms
from mixedmode.errors import RetryableError
from mixedmode.spark.jobs import CANCEL_SECONDS, cancel, tagged


@contextmanager
def deadline(session: SparkSession, timeout_ms: int | None, *, tag: str) -> Iterator[None]:
    """Run the block with a time limit. Raise RetryableError if it took longer, also if it has come to its end.

    timeout_ms: None for no limit. tag: unique for the epoch among all jobs of this session; without a comma.
    """
    if timeout_ms is None:
        yield
        return
    has_ended, is_over = threading.Event(), threading.Event()

    def watch(seconds: float) -> None:
        while not has_ended.wait(seconds):
            is_over.set()
            cancel(session, tag)
            seconds = CANCEL_SECONDS

    watching = threading.Thread(target=watch, args=(timeout_ms / 1000,), name="time limit of an epoch", daemon=True)
    with tagged(session, tag):
        watching.start()
        try:
            yield
        except (PySparkException, Py4JError) as error:
            if is_over.is_set():
                raise _too_long(timeout_ms) from error
            raise
        finally:
            has_ended.set()
            watching.join()  # a late call would cancel jobs of the next attempt, which has the same tag
    if is_over.is_set():
        raise _too_long(timeout_ms)


def _too_long(timeout_ms: int) -> RetryableError:
    return RetryableError(
        "an epoch took longer than execution.checkpointing.timeout, and was given up; nothing of it is committed. "
        "Raise the limit, give the job more subtasks, or limit what an epoch takes (max-bytes-per-epoch of a "
        f"source), then start the job again: it resumes. timeout={format_duration_ms(timeout_ms)}"
    )
