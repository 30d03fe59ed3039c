"""Creation of a savepoint, for `mixedmode savepoint create` and `Job.create_savepoint`. The job need not be running."""

import time
from collections.abc import Callable

from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.savepoint import Savepoint, check_free, create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Manifest
from mixedmode.clock import Clock, SystemClock
from mixedmode.config import JobSpec
from mixedmode.config.overlaps import check_savepoint_folder, check_savepoint_place
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.sinks.publish import unpublished_after_waiting
from mixedmode.sinks.sink import staging_folder


def take_savepoint(spec: JobSpec, place: str, *, clock: Clock | None = None) -> Savepoint:
    """Keep the newest checkpoint of a job in `place`, a folder or URL.

    Raises InvalidJobError if the job has no checkpoint, or if `place` cannot be its savepoint.
    """
    return savepoint_of(folder_for_savepoint(spec, place), place, clock=clock)


def folder_for_savepoint(spec: JobSpec, place: str) -> str:
    """Return the checkpoint folder of a job whose savepoint may be put in `place`.

    Raises InvalidJobError if the job has no such folder, if `place` overlaps another place of the job, or if it holds
    anything other than the files of an interrupted attempt.
    """
    folder = spec.execution.checkpointing.dir
    if folder is None:
        msg = (
            "a savepoint is taken of a checkpoint, and this job sets no execution.checkpointing.dir. Name the folder "
            f"of its checkpoints. name={spec.name}"
        )
        raise InvalidJobError(msg)
    check_savepoint_place(spec, place)
    check_free(ObjectStore(place))
    return folder


def savepoint_of(
    folder: str, place: str, *, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep
) -> Savepoint:
    """Keep the newest checkpoint of `folder`, a job's checkpoint folder or URL, in `place`."""
    check_savepoint_folder(folder, place)
    log = CheckpointLog(ObjectStore(folder))

    def check(manifest: Manifest) -> None:
        """Raise RetryableError for staged rows, which a savepoint does not have: nobody would publish them."""
        staged = [(ObjectStore(staging_folder(folder, file.sink)), file) for file in manifest.outputs]
        found = unpublished_after_waiting(staged, sleep)
        if found is not None:
            msg = (
                "rows of the newest checkpoint are not published yet, and a job that goes on from a savepoint would "
                "never publish them. Start the job, which does so first, or see why the running one cannot; then take "
                f"the savepoint. epoch={manifest.epoch}, output={found.sink or 'sink'}, "
                f"folder={staging_folder(folder, found.sink)}"
            )
            raise RetryableError(msg)

    return create_savepoint(log, ObjectStore(place), now_ms=(clock or SystemClock()).now_ms(), check=check)
