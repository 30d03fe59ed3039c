"""The checkpoints in a folder that a reader can read."""

import os

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.lineage import is_abandoned
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.errors import InvalidJobError, RetryableError

__all__ = ["Place", "manifest_at", "state_log"]

Place = str | os.PathLike[str]


def state_log(directory: Place) -> CheckpointLog:
    """Return the log of a checkpoint folder or savepoint.  Raises InvalidJobError for another folder."""
    log = CheckpointLog(ObjectStore(directory))
    root = log.store.local_root
    is_file = root is not None and root.is_file()
    if is_file or not (log.store.exists(paths.JOB) or log.store.exists(paths.SAVEPOINT)):
        msg = (
            "this is neither a checkpoint folder nor a savepoint: it has no job.json and no savepoint.json. Name the "
            f"folder that the job file gives in execution.checkpointing.dir. folder={directory}"
        )
        raise InvalidJobError(msg)
    return log


def manifest_at(log: CheckpointLog, epoch: int | None) -> Manifest:
    """Return the manifest of an epoch; None: of the newest one. An epoch that the job has gone back from has none.

    Raise InvalidJobError for an unknown epoch, RetryableError if there is no checkpoint yet.
    """
    epochs, backs = log.epochs(), log.goings_back()

    def valid(number: Epoch) -> Manifest | None:
        found = log.get(number)
        return None if found is None or is_abandoned(found.epoch, found.generation, backs) else found

    for number in reversed(epochs):
        manifest = valid(number) if epoch in {None, number} else None
        if manifest is not None:
            return manifest
    kept = [number for number in epochs if valid(number) is not None]
    if not kept:
        msg = (
            "the job has no state yet: it has committed no checkpoint. A backlog takes its first one at its end, so "
            f"read again after it. folder={log.store.url}"
        )
        raise RetryableError(msg)
    msg = (
        f"there is no checkpoint of this epoch. Name one that is kept: {', '.join(map(str, kept))}. epoch={epoch!r}, "
        f"folder={log.store.url}"
    )
    raise InvalidJobError(msg)
