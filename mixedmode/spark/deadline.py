"""A limit on how long an epoch may take: when it is over, Spark's jobs of the epoch are cancelled.

Spark knows the jobs by a tag of SparkContext that the thread bears while the epoch runs (the tags of a session do not
reach jobs of a streaming query's thread). What the driver does itself (a manifest's put)
is not cut off: whether it is committed would then not be known.
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
    """Raises RetryableError in place of Spark's exception if the jobs of the block were cancelled by the limit.

    timeout_ms: None is no limit. tag: names the epoch among all that run in this session; without a comma.
    """
    if timeout_ms is None:
        yield
        return
    context, is_over = session.sparkContext, threading.Event()

    def cancel() -> None:
        is_over.set()
        with suppress(PySparkException, Py4JError):  # Spark itself may be gone; the block will notice
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
