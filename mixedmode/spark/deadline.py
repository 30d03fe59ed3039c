"""Limits the duration of an epoch: after the limit, Spark's jobs of the epoch are cancelled.

The thread has a tag of SparkContext while the epoch runs, which marks the epoch's jobs. (Tags of a session do not reach
the jobs of a streaming query's thread.) The driver's own work, such as writing a manifest, is not interrupted;
otherwise it would be unknown if the epoch is committed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mixedmode.durations import format_duration_ms
from mixedmode.errors import RetryableError


@contextmanager
def deadline(session: SparkSession, timeout_ms: int | None, *, tag: str) -> Iterator[None]:
    """Run the block with a time limit. Raise RetryableError instead of Spark's exception if the limit cancelled jobs.

    timeout_ms: None for no limit. tag: unique for the epoch among all jobs of this session; without a comma.
    """
    if timeout_ms is None:
        yield
        return
    context, is_over = session.sparkContext, threading.Event()

    def cancel() -> None:
        is_over.set()
        with suppress(PySparkException, Py4JError):  # Spark itself may have ended; the block will notice
            context.cancelJobsWithTag(tag)

    timer = threading.Timer(timeout_ms / 1000, cancel)
    timer.daemon = True
    context.addJobTag(tag)
    timer.start()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if not is_over.is_set():
            raise
        msg = (
            "an epoch took longer than execution.checkpointing.timeout, and was given up; nothing of it is committed. "
            "Raise the limit, give the job more subtasks, or limit what an epoch takes (max-bytes-per-epoch of a "
            f"source), then start the job again: it resumes. timeout={format_duration_ms(timeout_ms)}"
        )
        raise RetryableError(msg) from error
    finally:
        timer.cancel()
        with suppress(PySparkException, Py4JError):
            context.removeJobTag(tag)
