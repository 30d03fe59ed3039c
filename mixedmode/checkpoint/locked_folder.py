"""Temporary folders that the next user of their place removes, if the process of theirs has crashed.

Each folder has a locked file as long as its process lives. Whoever makes a new folder removes those whose lock is free.
So a job that is killed again and again does not fill the disk.

Invariant (tests/checkpoint/test_locked_folder.py, tests/queryable/test_folders.py): no folder of a living process is
removed, and a later one removes all others.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

from mixedmode.checkpoint.private_folder import LOCK, holds, own_temporary_folder, try_lock
from mixedmode.errors import RetryableError
from mixedmode.folders import not_made

__all__ = ["locked_folder", "temporary_folder"]

_ELSEWHERE = ", or set TMPDIR to another one"


@contextmanager
def locked_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Return a new folder in `parent`, as a context manager that deletes it.  prefix: of all such folders there.

    Raises RetryableError, with what to do, if the system makes none.
    """
    _remove_abandoned(parent, prefix)
    folder, lock = _new(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def temporary_folder(prefix: str) -> AbstractContextManager[Path]:
    """Return a locked_folder in this user's part of the temporary folder.  prefix: of those with the same purpose.

    Raises as own_temporary_folder.
    """
    return locked_folder(own_temporary_folder(), prefix)


def _new(parent: Path, prefix: str) -> tuple[Path, IO[str]]:
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            raise _not_made(parent, error) from error
        try:
            lock = (folder / LOCK).open("w")
        except FileNotFoundError:  # another process took the new folder for an abandoned one
            continue
        except OSError as error:
            raise _not_made(parent, error) from error
        if try_lock(lock) and holds(folder, lock):
            return folder, lock
        lock.close()  # the same


def _not_made(parent: Path, error: OSError) -> RetryableError | OSError:
    """Return the error for a folder in `parent`. If the parent is gone, the caller knows more about it."""
    return error if isinstance(error, FileNotFoundError) else not_made(parent, error, _ELSEWHERE)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            folder.rmdir()  # an empty one: its process has ended before it made the file, or makes another folder
        with suppress(OSError), (folder / LOCK).open("r+") as lock:
            if try_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
