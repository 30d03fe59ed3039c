"""Named places where a test can have the whole job killed, as a power cut would, or a task fail or wait.

`MIXEDMODE_CRASH_AT=<name>@<epoch>` kills the driver with SIGKILL when that place is reached in that epoch. Without the
variable, `reach` does nothing.

In tasks, `reach_in_task` is `reach`, and more:

* `MIXEDMODE_FAIL_TASKS=<probability>:<seed>` has tasks fail there, each attempt with that probability, so that Spark
  runs them again. One seed fails the same attempts in every run.
* `MIXEDMODE_HOLD_TASKS=<folder>` has a task wait there as long as the folder holds a file `<name>@<epoch>-<operator>`,
  or the same with `-<subtask>-<attempt>` behind it, for that attempt alone. A task that waits leaves the file
  `held-<name>@<epoch>-<operator>-<subtask>-<attempt>`, with its process id.

The driver passes the variables on to the tasks, also to those on other machines, with its own process id.
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
    "merge",  # a subtask has merged older runs into one and stored it
    "runs-stored",  # a subtask's runs and outputs are stored, its report is not yet sent
    "before-manifest",  # all subtasks have reported; nothing is committed
    "after-manifest",  # the epoch is committed, its outputs are not published, or about to be published again
    "publish",  # the first output of a committed epoch is published, the others are not
    "table-applied",  # the rows of a committed epoch are in their table's transaction, which is not committed
    "table-committed",  # that is committed; the staged files are still there
    "kafka-sent",  # rows of a committed epoch are in the topic, and not yet noted as sent
    "after-publish",  # outputs are published; Spark has not written its own commit
    "drop",  # an old checkpoint's manifest is deleted, its runs are not; the epoch is the latest committed one
    "collect",  # some of the garbage is deleted; the epoch is the latest committed one
    "go-back",  # a damaged checkpoint is being left: later outputs are taken back, Spark's log is not yet
    "savepoint",  # a savepoint's files are stored, its document is not
    "restore",  # a savepoint's files are in the checkpoint folder, its manifest is not
    "compact-planned",  # a compaction has put its plan; the epoch is the first one that it leaves alone
    "compact-written",  # a merged file is written locally, and not yet in the output; as compact-planned
    "compact-merged",  # a merged file is in the output, and so are those whose place it takes; as compact-planned
    "compact-deleted",  # the files of the first merge are deleted; as compact-planned
]

CRASH_AT = "MIXEDMODE_CRASH_AT"
DRIVER_PID = "MIXEDMODE_DRIVER_PID"
FAIL_TASKS = "MIXEDMODE_FAIL_TASKS"
HOLD_TASKS = "MIXEDMODE_HOLD_TASKS"
#: what tasks have to find in their environment
VARIABLES = (CRASH_AT, DRIVER_PID, FAIL_TASKS, HOLD_TASKS)
_LOOK_AGAIN_SECONDS = 0.02


class TaskFailedOnPurposeError(Exception):
    """What MIXEDMODE_FAIL_TASKS asks for: none of our kinds, as Spark would not run the task again for those."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Which attempt at which task is somewhere. `attempt` counts from 0 for each subtask, as Spark does."""

    epoch: int
    operator_id: str
    subtask: int
    attempt: int


def arm() -> None:
    """Called by the driver before Spark starts, so that its tasks inherit the process to kill."""
    os.environ[DRIVER_PID] = str(os.getpid())


def reach(name: CrashPoint, epoch: int) -> None:
    """Kill the driver if this is the place and the epoch that the environment names."""
    if os.environ.get(CRASH_AT) == f"{name}@{epoch}":
        os.kill(int(os.environ.get(DRIVER_PID, os.getpid())), signal.SIGKILL)


def reach_in_task(name: CrashPoint, place: TaskPlace) -> None:
    """As `reach`; and fail, or wait, if the environment says so."""
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
