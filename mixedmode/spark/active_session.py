"""The active session of a thread: parts of Spark that are called without a session take its settings.

Examples are the catalog, which compares names with or without case, and the parser. PySpark makes a session active, and
lets it be, when it creates a frame of Python's rows. So another session may be active: that of a job before this one.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mixedmode.spark.java_classes import java_class

__all__ = ["active", "active_in_job"]


@contextlib.contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread while the block runs. Then it is the one of before again."""
    sessions = _sessions(session.sparkContext)
    before = sessions.getActiveSession()
    if before.contains(session._jsparkSession):  # as mostly: each call of the JVM takes time
        yield
        return
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError):  # Spark may have ended, and the error of the block says so
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()


@contextlib.contextmanager
def active_in_job(session: SparkSession) -> Iterator[None]:
    """Do the same for a job, whose frames of Python's rows also change what PySpark returns as the active session.

    That is one for all threads of the program. It is the one of before again, too.
    """
    known = SparkSession._activeSession
    try:
        with active(session):
            yield
    finally:
        SparkSession._activeSession = known


def _sessions(context: SparkContext) -> Any:
    return java_class(context, "org.apache.spark.sql.classic.SparkSession")
