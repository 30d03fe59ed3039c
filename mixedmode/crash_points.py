"""Named places where a test can have the whole job killed, as a power cut would.

`MIXEDMODE_CRASH_AT=<name>@<epoch>` kills the driver with SIGKILL when that place is reached in that epoch. Without the
variable, `reach` does nothing. The driver passes its own process id on to the tasks of an embedded Spark.
"""

import os
import signal
from typing import Literal

CrashPoint = Literal[
    "sort",  # a subtask has received all of its input and begins to emit it in order
    "aggregate",  # a subtask has processed the first of its sorted input
    "merge",  # a subtask has merged older runs into one and stored it
    "runs-stored",  # a subtask's runs and outputs are stored, its report is not yet sent
    "before-manifest",  # all subtasks have reported; nothing is committed
    "after-manifest",  # the epoch is committed, its outputs are not published
    "publish",  # the first output of a committed epoch is published, the others are not
    "after-publish",  # outputs are published; Spark has not written its own commit
    "drop",  # an old checkpoint's manifest is deleted, its runs are not
    "collect",  # some of the garbage is deleted; the epoch is the latest committed one
    "go-back",  # a damaged checkpoint is being left: later outputs are taken back, Spark's log is not yet
    "savepoint",  # a savepoint's files are stored, its document is not
    "restore",  # a savepoint's files are in the checkpoint folder, its manifest is not
]

CRASH_AT = "MIXEDMODE_CRASH_AT"
DRIVER_PID = "MIXEDMODE_DRIVER_PID"


def arm() -> None:
    """Called by the driver before Spark starts, so that its tasks inherit the process to kill."""
    os.environ[DRIVER_PID] = str(os.getpid())


def reach(name: CrashPoint, epoch: int) -> None:
    """Kill the driver if this is the place and the epoch that the environment names."""
    if os.environ.get(CRASH_AT) == f"{name}@{epoch}":
        os.kill(int(os.environ.get(DRIVER_PID, os.getpid())), signal.SIGKILL)
