"""The local folders of readers: private, and removed by the next reader if theirs has crashed.

A folder holds links to files of the state, which keep the space of deleted runs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mixedmode.checkpoint.locked_folder import locked_folder
from mixedmode.checkpoint.private_folder import own_temporary_folder, private_subfolder
from mixedmode.errors import MixedmodeError

__all__ = ["memory_folder", "reader_folder"]

_MEMORY = Path("/dev/shm")  # noqa: S108 - a private folder in it, as in the temporary folder
_MEMORY_BYTES_MIN = 256 * 1024 * 1024  # free; containers may have much less than that


@contextmanager
def reader_folder(parent: Path | None = None) -> Iterator[Path]:
    """Return a new folder, as a context manager that deletes it.  parent: of all readers; None: the usual place."""
    if parent is None:
        parent = private_subfolder(own_temporary_folder(), "readers")
    with locked_folder(parent, "reader-") as folder:
        yield folder


def memory_folder() -> Path | None:
    """Return a `parent` of reader folders in memory; None if this system has none, or too little memory for it."""
    try:
        found = os.statvfs(_MEMORY)
        if found.f_bavail * found.f_frsize < _MEMORY_BYTES_MIN or not os.access(_MEMORY, os.W_OK):
            return None
        return private_subfolder(private_subfolder(_MEMORY, f"mixedmode-{os.getuid()}"), "readers")
    except (OSError, MixedmodeError):
        return None
