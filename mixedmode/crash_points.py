"""Named places at which a test can kill the whole job, as a power cut would, or make a task fail or wait.

`MIXEDMODE_CRASH_AT=<name>@<epoch>` kills the driver with SIGKILL when it reaches that place in that epoch. Without the
variable, `reach` does nothing.

In tasks, `reach_in_task` does the same as `reach`, and more:

* `MIXEDMODE_FAIL_TASKS=<probability>:<seed>` makes each task attempt fail there with that probability, so that Spark
  runs the task again. One seed fails the same attempts in every run.
* `MIXEDMODE_HOLD_TASKS=<folder>` makes a task wait there while the folder holds a file `<name>@<epoch>-<operator>`.
  A file `<name>@<epoch>-<operator>-<subtask>-<attempt>` holds that attempt alone. A waiting task writes the file
  `held-<name>@<epoch>-<operator>-<subtask>-<attempt>`, with its process id.

The driver passes the variables and its own process id to the tasks, also to those on other machines.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

CrashPoint = Literal[
    "sort",  # a subtask has received all of its input and begins to emit it in order
    "aggregate",  # a subtask has processed the first of its sorted input
    "merge",  # a subtask has merged older runs into one, which is being stored
    "runs-stored",  # a subtask's runs and outputs are stored, its report is not yet sent
    "before-manifest",  # all subtasks have reported; nothing is committed
    "after-manifest",  # the epoch is committed; its outputs are not published, or about to be published again
    "publish",  # of a committed epoch, only the first output is published
    "table-applied",  # the rows of a committed epoch are in their table's transaction, which is not committed
    "table-committed",  # that transaction is committed; the staged files still exist
    "kafka-sent",  # rows of a committed epoch are in the topic, and not yet recorded as sent
    "after-publish",  # outputs are published; Spark has not written its own commit
    "drop",  # an old checkpoint's manifest is deleted, its runs are not; the epoch is the latest committed one
    "collect",  # some of the garbage is deleted; the epoch is the latest committed one
    "go-back",  # going back: later outputs are rolled back, Spark's log is not yet cut
    "savepoint",  # a savepoint's files are stored, its document is not
    "restore",  # a savepoint's files are in the checkpoint folder, its manifest is not
    "compact-planned",  # a compaction has stored its plan; the epoch is the first one that it leaves unchanged
    "compact-written",  # a merged file is written locally, and not yet in the output; epoch as compact-planned
    "compact-merged",  # a merged file and the files that it replaces are in the output; epoch as compact-planned
    "compact-deleted",  # the files of the first merge are deleted; epoch as compact-planned
]

CRASH_AT = "MIXEDMODE_CRASH_AT"
DRIVER_PID = "MIXEDMODE_DRIVER_PID"
FAIL_TASKS = "MIXEDMODE_FAIL_TASKS"
HOLD_TASKS = "MIXEDMODE_HOLD_TASKS"
#: the variables that tasks need in their environment
VARIABLES = (CRASH_AT, DRIVER_PID, FAIL_TASKS, HOLD_TASKS)
_LOOK_AGAIN_SECONDS = 0.02


class TaskFailedOnPurposeError(Exception):
    """The failure that MIXEDMODE_FAIL_TASKS asks for.

    It is not a MixedmodeError, since Spark would not run the task again for one.
    """


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """An attempt at a task. `attempt` counts from 0 for each subtask, as in Spark."""

    epoch: int
    operator_id: str
    subtask: int
    attempt: int


def arm() -> None:
    """Store the driver's process id, so that tasks know which process to kill.

    The driver calls it before Spark starts.
    """
    os.environ[DRIVER_PID] = str(os.getpid())


def reach(name: CrashPoint, epoch: int) -> None:
    """Kill the driver if the environment names this place and this epoch."""
    if os.environ.get(CRASH_AT) == f"{name}@{epoch}":
        os.kill(int(os.environ.get(DRIVER_PID, os.getpid())), signal.SIGKILL)


def reach_in_task(name: CrashPoint, place: TaskPlace) -> None:
    """Do the same as `reach`; also fail or wait if the environment says so."""
    reach(name, place.epoch)
    point = f"{name}@{place.epoch}-{place.operator_id}"
    attempt = f"{point}-{place.subtask}-{place.attempt}"
    probability, _, seed = os.environ.get(FAIL_TASKS, "0").partition(":")
    if Random(f"{seed}:{attempt}").random() < float(probability):  # noqa: S311 - chance, not a secret
        msg = f"{FAIL_TASKS} wants this attempt to fail. at={attempt}"
        raise TaskFailedOnPurposeError(msg)
    folder = os.environ.get(HOLD_TASKS)
    if folder is not None:
        _wait_while_held(Path(folder), point, attempt)


def _wait_while_held(folder: Path, point: str, attempt: str) -> None:
    while (folder / point).exists() or (folder / attempt).exists():
        (folder / f"held-{attempt}").write_text(str(os.getpid()))
        time.sleep(_LOOK_AGAIN_SECONDS)
