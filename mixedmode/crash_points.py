"""Named places where a test can have the whole job killed, as a power cut would.

`MIXEDMODE_CRASH_AT=<name>@<epoch>` kills the driver with SIGKILL when that place is reached in that epoch. Without the
variable, `reach` does nothing. The driver passes its own process id on to the tasks of an embedded Spark.
"""

import os
import signal
from typing import Literal

CrashPoint = Literal[
    "sort",  # a subtask has received all of its input and begins to emit it in order
    "runs-stored",  # a subtask's runs and outputs are stored, its report is not yet sent
    "before-manifest",  # all subtasks have reported; nothing is committed
    "after-manifest",  # the epoch is committed, its outputs are not published
    "after-publish",  # outputs are published; Spark has not written its own commit
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
