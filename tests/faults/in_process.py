"""A driver that dies at a crash point in this process, on the shared session: no second JVM has to start.

From that point on, the start can change nothing in its folders, so nothing is cleaned up on the way out. What a SIGKILL
of the process proves beyond that, such as a transaction that is left open, is in tests/faults/test_kill_matrix.py and
beside each kind of sink.
"""

import pytest
from pyspark.sql import SparkSession

from mixedmode.clock import Clock
from mixedmode.crash_points import CrashPoint
from mixedmode.job import Job
from tests.harness import run
from tests.walk.faults import Faults, KillAtPoint


class DriverDiedError(Exception):
    """The driver is gone. Py4J returns an Exception to the JVM; a BaseException would leave the JVM waiting."""


def dies_at(job: Job, spark: SparkSession, point: CrashPoint, epoch: int, *, clock: Clock | None = None) -> None:
    """Run a job until it dies at this point of this epoch. The driver must reach the point, not a task."""
    faults = Faults(killed=DriverDiedError)
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        with faults.armed(KillAtPoint(point, epoch)), pytest.raises(DriverDiedError):
            run(job, spark, clock=clock)
