"""The local folders of readers: private, and removed by the next reader if theirs has crashed.

A folder holds links to files of the state, which keep the space of deleted runs. So each folder has a locked file as
long as its reader lives, and a new reader removes the folders whose lock is free.

Invariant (tests/queryable/test_folders.py): no folder of a living reader is removed, and a later reader removes all
others.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mixedmode.checkpoint.private_folder import LOCK, holds, own_temporary_folder, private_subfolder, try_lock
from mixedmode.errors import InvalidJobError

__all__ = ["memory_folder", "reader_folder"]

_MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder in it, as in the temporary folder
_MEMORY_BYTES_MIN = 256 * 1024 * 1024  # free; containers may have much less than that


@contextmanager
def reader_folder(parent: Path | None = None) -> Iterator[Path]:
    """Return a new folder, as a context manager that deletes it.  parent: of all readers; None: the usual place."""
    if parent is None:
        parent = private_subfolder(own_temporary_folder(), "readers")
    _remove_abandoned(parent)
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def memory_folder() -> Path | None:
    """Return a `parent` of reader folders in memory; None if this system has none, or too little memory for it."""
    try:
        found = os.statvfs(_MEMORY)
        if found.f_bavail * found.f_frsize < _MEMORY_BYTES_MIN or not os.access(_MEMORY, os.W_OK):
            return None
        return private_subfolder(private_subfolder(_MEMORY, f"mixedmode-{os.getuid()}"), "readers")
    except (OSError, InvalidJobError):
        return None


def _locked_folder(parent: Path) -> tuple[Path, IO[str]]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix="reader-", dir=parent))
        lock = (folder / LOCK).open("w")
        if try_lock(lock) and holds(folder, lock):
            return folder, lock
        lock.close()  # another reader took the new folder for an abandoned one


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob("reader-*"):
        with suppress(OSError), (folder / LOCK).open("r+") as lock:  # without the file, its reader has just begun
            if try_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
