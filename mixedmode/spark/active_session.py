"""The active session of a thread: parts of Spark that are called without a session take its settings.

Examples are the catalog, which compares names with or without case, and the parser. PySpark makes a session active, and
lets it be, when it creates a frame of Python's rows. So another session may be active: that of a job before this one.
"""

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["active"]


@contextlib.contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread while the block runs. Then it is the one of before again."""
    known = SparkSession._activeSession  # PySpark's own, of all threads
    sessions = _sessions(session.sparkContext)
    before = sessions.getActiveSession()
    is_active = before.contains(session._jsparkSession)  # as mostly: each call of the JVM takes time
    if not is_active:
        sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        SparkSession._activeSession = known
        if not is_active:
            with contextlib.suppress(Py4JError):  # Spark may have ended, and the error of the block says so
                if before.isDefined():
                    sessions.setActiveSession(before.get())
                else:
                    sessions.clearActiveSession()


@lru_cache(maxsize=1)
def _sessions(context: SparkContext) -> Any:
    """Return Spark's class of sessions. To look it up takes several calls."""
    jvm: Any = context._jvm
    return jvm.org.apache.spark.sql.classic.SparkSession
