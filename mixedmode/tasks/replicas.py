"""The replicas of the state on a machine, by job, and when the replicas of other jobs are removed.

    replicas/<job>/<operator>-<start>-<end>/    a replica: see state/rocksdb/replica.py
    replicas/<job>/checkpoints                  the URL of the job's checkpoint folder

A replica is a copy, so to remove one costs only the time to make it again. When a job has its first replica on a
machine, it removes those of jobs that are gone: their checkpoint folder is on this machine, and no longer exists. If
that cannot be told, as for an object store, they are gone when nobody has opened them for UNUSED_SECONDS. A replica
that a process holds stays.
"""

import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

from mixedmode.checkpoint.private_folder import LOCK, own_temporary_folder
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.state.rocksdb.replica import building, remove_unheld

__all__ = ["UNUSED_SECONDS", "remove_gone", "remove_replicas", "replicas_of"]

UNUSED_SECONDS = 7 * 24 * 3600.0
_NOTE = "checkpoints"


def replicas_of(checkpoint_url: str) -> Path:
    """Return the folder of a job's replicas on this machine. The first call for a job removes those that are gone.

    Raises RetryableError if the local disk fails, and as own_temporary_folder.
    """
    folder = _folder_of(checkpoint_url)
    with building(folder):
        if not (folder / _NOTE).exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _NOTE).write_text(checkpoint_url)
            remove_gone(folder.parent, now=time.time())
    return folder


def remove_replicas(checkpoint_url: str) -> None:
    """Delete the replicas on this machine of a job that has ended for good."""
    shutil.rmtree(_folder_of(checkpoint_url), ignore_errors=True)


def remove_gone(replicas: Path, *, now: float) -> None:
    """Delete the replicas of jobs that are gone.  now: seconds since 1970."""
    for folder in replicas.iterdir():
        with suppress(OSError):  # another process removes it, too, or holds one of its replicas
            if _is_gone(folder, now):
                for replica in folder.iterdir():
                    if replica.is_dir():
                        remove_unheld(replica)
                (folder / _NOTE).unlink(missing_ok=True)
                folder.rmdir()


def _folder_of(checkpoint_url: str) -> Path:
    return own_temporary_folder() / "replicas" / uuid.uuid5(uuid.NAMESPACE_URL, checkpoint_url).hex[:16]


def _is_gone(folder: Path, now: float) -> bool:
    note = folder / _NOTE
    url = note.read_text() if note.exists() else ""
    root = ObjectStore(url).local_root if url else None
    if root is not None:
        return not root.exists()
    locks = folder.glob(f"*/{LOCK}")  # to open a replica changes its lock
    used = max(path.stat().st_mtime for path in (folder, *locks))
    return now - used > UNUSED_SECONDS
